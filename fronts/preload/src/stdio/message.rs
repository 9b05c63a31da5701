//! Messages to `stderr` that may end the process: `err`, `error` and kin.
//!
//! Apart because each is several operations, and because libc ends the process
//! with an `exit` of its own that nobody sees: here it is ours.

use super::{FLUSHED, Operating, RUNNING, START, Which, begin, end, on, real, stream_of};
use core::ffi::c_char;
use relive_sys::syscall;

/// Slots of [`crate::variadic::Call::own`].
const STATUS: usize = 1;
const BUFFER: usize = 2;
const LENGTH: usize = 3;

pub(super) fn dies(call: &mut Operating) -> usize {
    if call.state == START {
        call.own[STATUS] = call.frame.args[0];
        call.frame.args.copy_within(1..3, 0);
        return on(call, Which::Error);
    }
    end(call);
    call.frame.args[0] = call.own[STATUS];
    crate::entry::exit as *const () as usize
}

/// `error` has no form that takes a `va_list`: the message is made beforehand and passed as `%s`.
pub(super) fn reports(call: &mut Operating) -> usize {
    match call.state {
        START => {
            call.state = RUNNING;
            call.own[STATUS] = call.frame.args[0];
            make(call);
            begin(call, stream_of(call, Which::Output));
            call.frame.args[0] = stream_of(call, Which::Output) as usize;
            real::at::fflush.address()
        }
        RUNNING => {
            end(call);
            call.state = FLUSHED;
            begin(call, stream_of(call, Which::Error));
            call.frame.args[0] = 0;
            call.subject.real.address()
        }
        _ => {
            end(call);
            free(call);
            call.frame.args[0] = call.own[STATUS];
            if call.frame.args[0] == 0 { 0 } else { crate::entry::exit as *const () as usize }
        }
    }
}

/// Replaces the format and its arguments by `%s` and the finished message; by the bare format if memory is short.
fn make(call: &mut Operating) {
    let fixed = call.subject.fixed;
    let format = call.frame.args[fixed as usize - 1] as *const c_char;
    let (mut message, mut length) = (format as usize, 0);
    // SAFETY: the program's format and arguments; the list is made anew for each pass over it.
    unsafe {
        let size = real::vsnprintf(core::ptr::null_mut(), 0, format, Operating::list(call, fixed));
        let bytes = usize::try_from(size).map_or(1, |s| s + 1);
        let memory = syscall::mmap(bytes, syscall::MAP_PRIVATE_ANONYMOUS, -1, 0);
        if memory > 0 {
            (message, length) = (memory as usize, bytes);
            real::vsnprintf(memory as *mut c_char, bytes, format, Operating::list(call, fixed));
        }
    }
    call.own[BUFFER] = message;
    call.own[LENGTH] = length;
    call.frame.args[fixed as usize - 1] = c"%s".as_ptr() as usize;
    call.frame.args[fixed as usize] = message;
}

pub(super) fn free(call: &Operating) {
    let length = call.own[LENGTH];
    if length != 0 {
        // SAFETY: mapped in `make`; the real function has ended.
        unsafe { syscall::munmap(call.own[BUFFER], length) };
    }
}
