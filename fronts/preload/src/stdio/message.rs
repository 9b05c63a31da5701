//! Messages to `stderr` that may end the process: `err`, `error` and kin.
//!
//! Apart because each is several operations, and because libc ends the process
//! with an `exit` of its own that nobody sees: here it is ours.

use super::{FLUSHED, Operating, RUNNING, START, Which, begin, end, on, real, stderr, stream_of};
use core::ffi::{CStr, c_char, c_int, c_uint};
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
    crate::handlers::exit as *const () as usize
}

/// `error` writes to `stdout` and `stderr` in one real call, outside the pairs of events on each. So its message is
/// composed here and written by operations of one stream each. What a program can change about it (a function that
/// prints its name, one message a line, a wide `stderr`) is left to the real one.
pub(super) fn reports(call: &mut Operating) -> usize {
    match call.state {
        START => {
            call.own[STATUS] = call.frame.args[0];
            call.state = if is_usual() && compose(call) {
                COMPOSED
            } else {
                make(call);
                RUNNING
            };
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
        COMPOSED => {
            end(call);
            call.state = WRITTEN;
            begin(call, stream_of(call, Which::Error));
            // SAFETY: libc's counter, which the program may only read; the stream's lock is held.
            unsafe { error_message_count += 1 };
            call.frame.args[0] = call.own[BUFFER];
            call.frame.args[1] = stream_of(call, Which::Error) as usize;
            real::at::fputs.address()
        }
        WRITTEN => {
            call.state = FLUSHED;
            call.frame.args[0] = stream_of(call, Which::Error) as usize;
            real::at::fflush.address()
        }
        _ => {
            end(call);
            free(call);
            call.frame.args[0] = call.own[STATUS];
            if call.frame.args[0] as u32 == 0 { 0 } else { crate::handlers::exit as *const () as usize }
        }
    }
}

/// States of a call of `error`, besides those of every operation.
const COMPOSED: usize = 4;
const WRITTEN: usize = 5;

unsafe extern "C" {
    static program_invocation_name: *const c_char;
    static error_print_progname: usize;
    static error_one_per_line: c_int;
    static mut error_message_count: c_uint;
}

/// Whether nobody changed what `error` does.
fn is_usual() -> bool {
    // SAFETY: libc's variables; reading them races with the program's own changes as the real function does.
    unsafe {
        error_print_progname == 0
            && error_one_per_line == 0
            && !program_invocation_name.is_null()
            && real::fwide(stderr, 0) <= 0
    }
}

/// Bytes for a line number or the text of an error, at most.
const NUMBER: usize = 16;
const REASON: usize = 1024;
/// Bytes for what stands between them, and the end.
const PUNCTUATION: usize = 8;

/// Makes the whole text of `error` or, with a file and a line, `error_at_line`: false if memory is short.
fn compose(call: &mut Operating) -> bool {
    let fixed = call.subject.fixed as usize;
    let [_, number, file, line, ..] = call.frame.args;
    let format = call.frame.args[fixed - 1] as *const c_char;
    // SAFETY: the program's strings, format and arguments; the list is made anew for each pass over it.
    unsafe {
        let name = CStr::from_ptr(program_invocation_name).to_bytes();
        let file = (fixed == 5 && file != 0).then(|| CStr::from_ptr(file as *const c_char).to_bytes());
        let size = real::vsnprintf(core::ptr::null_mut(), 0, format, Operating::list(call, call.subject.fixed));
        let Ok(size) = usize::try_from(size) else { return false };
        let bytes = name.len() + file.map_or(0, <[u8]>::len) + size + NUMBER + REASON + PUNCTUATION;
        let memory = syscall::mmap(bytes, syscall::MAP_PRIVATE_ANONYMOUS, -1, 0);
        if memory <= 0 {
            return false;
        }
        (call.own[BUFFER], call.own[LENGTH]) = (memory as usize, bytes);
        let mut text = Text { start: memory as *mut u8, length: 0 };
        text.push(name);
        text.push(b":");
        if let Some(file) = file {
            text.push(file);
            text.push(b":");
            text.push_number(line as u32);
            text.push(b":");
        }
        text.push(b" ");
        let list = Operating::list(call, call.subject.fixed);
        real::vsnprintf(text.end().cast(), size + 1, format, list);
        text.length += size;
        if number as c_int != 0 {
            let mut room = [0 as c_char; REASON];
            let reason = real::strerror_r(number as c_int, room.as_mut_ptr(), room.len());
            text.push(b": ");
            let reason = CStr::from_ptr(reason).to_bytes();
            text.push(&reason[..reason.len().min(REASON)]);
        }
        text.push(b"\n");
    }
    true
}

/// Bytes that grow in mapped memory, which is zero behind them.
struct Text {
    start: *mut u8,
    length: usize,
}

impl Text {
    fn end(&self) -> *mut u8 {
        // SAFETY: within the mapping, which `compose` makes large enough for all that it pushes.
        unsafe { self.start.add(self.length) }
    }

    /// Appends `bytes`: the caller has made the mapping large enough.
    unsafe fn push(&mut self, bytes: &[u8]) {
        // SAFETY: the caller's promise; the program's strings lie elsewhere.
        unsafe { self.end().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        self.length += bytes.len();
    }

    unsafe fn push_number(&mut self, number: u32) {
        if number >= 10 {
            // SAFETY: the caller's promise.
            unsafe { self.push_number(number / 10) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.push(&[b'0' + (number % 10) as u8]) };
    }
}

/// `error` has no form that takes a `va_list`. Replaces the format and its arguments by `%s` and the finished message;
/// by the bare format if memory is short.
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
