//! What stream operations do to memory of their callers, for the detector of races.
//!
//! Apart from the operations because it is a table of its own: libc copies byte by byte
//! where a buffer is small, and of its own code the detector sees only the copying
//! functions. What a format asks for is not in it.

use super::Operating;
use core::ffi::{CStr, c_char};
use relive_rt::races;

/// A function's argument that is memory of the caller.
enum Memory {
    /// A string that it writes out.
    Given,
    /// So many elements (the second argument says how large) as the third argument says.
    GivenElements,
    /// A string that it makes, if it returns something.
    Made,
    /// So many elements as it returns.
    MadeElements,
}

/// The first argument of such a function.
fn of(name: &CStr) -> Option<Memory> {
    match name.to_bytes() {
        b"fputs" | b"_IO_fputs" | b"fputs_unlocked" | b"puts" | b"_IO_puts" => Some(Memory::Given),
        b"fwrite" | b"_IO_fwrite" | b"fwrite_unlocked" => Some(Memory::GivenElements),
        b"fgets" | b"_IO_fgets" | b"fgets_unlocked" | b"__fgets_chk" | b"__fgets_unlocked_chk" => Some(Memory::Made),
        b"fread" | b"_IO_fread" | b"fread_unlocked" => Some(Memory::MadeElements),
        _ => None,
    }
}

/// The operation is about to be done.
pub(super) fn begins(call: &Operating) {
    if races::is_on() {
        let [start, size, count, ..] = call.frame.args;
        match of(call.subject.real.name()) {
            Some(Memory::Given) => races::given(start, string(start)),
            Some(Memory::GivenElements) => races::given(start, size.saturating_mul(count)),
            Some(Memory::Made | Memory::MadeElements) | None => {}
        }
    }
}

/// It is done.
pub(super) fn ends(call: &Operating) {
    if races::is_on() {
        let [start, size, ..] = call.frame.args;
        match (of(call.subject.real.name()), call.frame.result) {
            (_, 0) | (None | Some(Memory::Given | Memory::GivenElements), _) => {}
            (Some(Memory::Made), _) => races::written(start, string(start)),
            (Some(Memory::MadeElements), count) => races::written(start, size.saturating_mul(count)),
        }
    }
}

/// Bytes of a string with its end.
fn string(start: usize) -> usize {
    // SAFETY: the program says that it is one, and libc reads it so as well, or has just made it.
    unsafe { CStr::from_ptr(start as *const c_char) }.to_bytes_with_nul().len()
}
