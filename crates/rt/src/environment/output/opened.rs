//! Descriptors that are opened by a name for another one: `/dev/stdout` and kin.
//!
//! Apart from those that are duplicated because only the name says it: such an open gives
//! a file of its own, with its own position, that is the session's output all the same.

use crate::environment::descriptors;
use crate::runtime;
use core::ffi::{CStr, c_char};
use relive_sys::syscall;
use relive_sys::syscall::number::{OPEN, OPENAT, OPENAT2};

/// Where names of descriptors stand, by their numbers.
const FOLDERS: [&[u8]; 3] = [b"/dev/fd/", b"/proc/self/fd/", b"/proc/thread-self/fd/"];

/// After a call of the program that succeeded or failed as recorded.
///
/// # Safety
/// What the arguments of a call that succeeded name must be as it was.
#[inline]
pub(in crate::environment) unsafe fn opened(number: usize, arguments: &[usize; 6], result: isize) {
    let path = match number {
        OPEN => arguments[0],
        OPENAT | OPENAT2 => arguments[1],
        _ => return,
    };
    // SAFETY: the kernel has read it, a string of C's.
    if result >= 0 && unsafe { may_name(path as *const u8) } && syscall::getpid() == runtime::pid() {
        // SAFETY: the same. (A child that still shares our memory has descriptors of its own.)
        let path = unsafe { CStr::from_ptr(path as *const c_char) };
        let shown = named(path.to_bytes()).and_then(descriptors::shown_by);
        descriptors::set(result as usize, shown.unwrap_or(0) as u8);
    }
}

/// Whether a name stands where those of descriptors do.
unsafe fn may_name(path: *const u8) -> bool {
    let begins = |with: &[u8]| {
        // SAFETY: the caller's promise; no byte is looked at behind one that is not there.
        with.iter().enumerate().all(|(at, &byte)| unsafe { *path.add(at) } == byte)
    };
    begins(b"/dev/") || begins(b"/proc/")
}

/// The descriptor that a name means.
fn named(path: &[u8]) -> Option<usize> {
    match path {
        b"/dev/stdin" => return Some(0),
        b"/dev/stdout" => return Some(1),
        b"/dev/stderr" => return Some(2),
        _ => {}
    }
    let number = FOLDERS.iter().find_map(|folder| path.strip_prefix(*folder))?;
    let is_decimal = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
    core::str::from_utf8(number).ok().filter(|_| is_decimal)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn names_of_descriptors() {
        let known = ["/dev/stdout", "/dev/stderr", "/dev/fd/0", "/proc/self/fd/17", "/proc/thread-self/fd/2"];
        assert_eq!(known.map(|name| named(name.as_bytes())), [Some(1), Some(2), Some(0), Some(17), Some(2)]);
        let others = ["/dev/fd/", "/dev/fd/+1", "/dev/fd/1/x", "/dev/null", "/proc/1/fd/1", "/dev/stdouts", ""];
        assert_eq!(others.map(|name| named(name.as_bytes())), [None; 7]);
    }
}
