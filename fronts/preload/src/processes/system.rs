//! `system`: libc's own starts its shell where we can't hand it an environment.
//!
//! The same steps as POSIX asks for: SIGINT and SIGQUIT ignored and SIGCHLD
//! blocked while the shell runs, all restored in the child.

use super::call;
use crate::real::{Object, errno, set_errno};
use core::ffi::{c_char, c_int};
use core::ptr::null_mut;
use relive_sys::front;

const SIGINT: c_int = 2;
const SIGQUIT: c_int = 3;
const SIGCHLD: c_int = 17;
const SIG_IGN: usize = 1;
const EINTR: c_int = 4;
const SET_SIGNALS: i16 = 0x04 | 0x08;

/// glibc's `struct sigaction`, `sigset_t` and `posix_spawnattr_t` by size; only their first words are used.
#[repr(C, align(8))]
struct Action([usize; 19]);
#[repr(C, align(8))]
struct Set([u64; 16]);
#[repr(C, align(8))]
struct Attributes([u64; 42]);

fn pointer<T>(value: &mut T) -> Object {
    core::ptr::from_mut(value).cast()
}

front!(
    /// `system`
    system, 1, system_front
);
front!(
    /// `__libc_system`
    __libc_system, 1, system_front
);

unsafe extern "C" fn system_front(command: *const c_char, place: usize) -> c_int {
    if command.is_null() {
        return 1;
    }
    let mut ignore = Action([0; 19]);
    ignore.0[0] = SIG_IGN;
    let (mut interrupt, mut quit) = (Action([0; 19]), Action([0; 19]));
    let (mut block, mut mask) = (Set([0; 16]), Set([0; 16]));
    block.0[0] = 1 << (SIGCHLD - 1);
    let mut defaults = Set([0; 16]);
    let mut attributes = Attributes([0; 42]);
    // SAFETY: buffers of glibc's sizes; the command is the program's string.
    unsafe {
        call::sigaction(SIGINT, pointer(&mut ignore), pointer(&mut interrupt));
        call::sigaction(SIGQUIT, pointer(&mut ignore), pointer(&mut quit));
        call::sigprocmask(0, pointer(&mut block), pointer(&mut mask));
        for (signal, old) in [(SIGINT, &interrupt), (SIGQUIT, &quit)] {
            if old.0[0] != SIG_IGN {
                defaults.0[0] |= 1 << (signal - 1);
            }
        }
        call::attributes_init(pointer(&mut attributes));
        call::attributes_mask(pointer(&mut attributes), pointer(&mut mask));
        call::attributes_default(pointer(&mut attributes), pointer(&mut defaults));
        call::attributes_flags(pointer(&mut attributes), SET_SIGNALS);
        let status = run(command, pointer(&mut attributes), place);
        let error = errno();
        call::sigaction(SIGINT, pointer(&mut interrupt), null_mut());
        call::sigaction(SIGQUIT, pointer(&mut quit), null_mut());
        call::sigprocmask(2, pointer(&mut mask), null_mut());
        set_errno(error);
        status
    }
}

unsafe fn run(command: *const c_char, attributes: Object, place: usize) -> c_int {
    const NOT_STARTED: c_int = 127 << 8;
    let arguments = [c"sh".as_ptr(), c"-c".as_ptr(), c"--".as_ptr(), command, core::ptr::null()];
    let mut pid = 0;
    let shell = c"/bin/sh".as_ptr();
    let environment = super::own_environment();
    let error = super::spawn(
        &raw mut pid,
        shell,
        [null_mut(), attributes],
        arguments.as_ptr(),
        environment,
        super::How::Path,
        place,
    );
    if error != 0 {
        return NOT_STARTED;
    }
    let mut status = 0;
    loop {
        // SAFETY: a place for the status.
        let got = unsafe { call::waitpid(pid, &raw mut status, 0) };
        if got == pid {
            relive_rt::outside::may_have_reaped();
            return status;
        }
        if got < 0 && errno() != EINTR {
            return -1;
        }
    }
}
