//! Names of files, put together: the trace's, as the runtime opens them, and others.
//!
//! Apart because chunks and inputs need them, and nothing here may allocate.

use crate::runtime::{self, Mode};
use core::ffi::CStr;
use relive_trace::opened::OPENED;

/// Puts parts together to a string; `None` if there is no room.
pub fn join<'b, const PARTS: usize>(into: &'b mut [u8], parts: [&[u8]; PARTS]) -> Option<&'b CStr> {
    let mut at = 0;
    for part in parts {
        into.get_mut(at..at + part.len())?.copy_from_slice(part);
        at += part.len();
    }
    *into.get_mut(at)? = 0;
    CStr::from_bytes_until_nul(into).ok()
}

/// The path of a file of the trace, with a final zero.
#[derive(Debug)]
pub struct Path {
    bytes: [u8; 4200],
    len: usize,
}

impl Path {
    /// The data file of a process image: the recording's, or in a replay the one for what it learns.
    pub fn data(process: u32) -> Self {
        let control = runtime::session();
        let series: &[u8] = if runtime::mode() == Mode::Replay { b"/learn-p" } else { b"/p" };
        Self::new(&control.folder[..control.folder_len as usize], series, process, b".trace\0")
    }

    /// The inputs file of this process image, in a recording and in its replays.
    pub fn inputs() -> Self {
        let control = runtime::session();
        Self::new(&control.source[..control.source_len as usize], b"/p", runtime::process(), b".inputs\0")
    }

    /// The list of files that images were started from.
    pub fn opened() -> Self {
        let control = runtime::session();
        let mut path = Self { bytes: [0; 4200], len: 0 };
        path.push(&control.source[..control.source_len as usize]);
        path.push(OPENED.as_bytes());
        path.push(b"\0");
        path
    }

    /// The memory for shared files in a replay.
    pub fn pool() -> Self {
        let control = runtime::session();
        let mut path = Self { bytes: [0; 4200], len: 0 };
        for (part, number) in [(&b"/proc/"[..], control.launcher), (b"/fd/", control.pool)] {
            path.push(part);
            path.decimal(number, 1);
        }
        path.push(b"\0");
        path
    }

    /// For a call of the kernel.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn new(folder: &[u8], series: &[u8], process: u32, ending: &[u8]) -> Self {
        let mut path = Self { bytes: [0; 4200], len: 0 };
        path.push(folder);
        path.push(series);
        path.decimal5(process);
        path.push(ending);
        path
    }

    fn push(&mut self, part: &[u8]) {
        self.bytes[self.len..self.len + part.len()].copy_from_slice(part);
        self.len += part.len();
    }

    fn decimal5(&mut self, value: u32) {
        self.decimal(value, 5);
    }

    fn decimal(&mut self, value: u32, least: usize) {
        let mut digits = [0u8; 10];
        let mut v = value;
        for d in digits.iter_mut().rev() {
            *d = b'0' + (v % 10) as u8;
            v /= 10;
        }
        let most = digits.len() - least;
        let first = digits[..most].iter().position(|&d| d != b'0').unwrap_or(most);
        self.push(&digits[first..]);
    }
}

#[cfg(test)]
mod tests {
    use super::{Path, join};

    #[test]
    fn parts_are_joined_where_there_is_room() {
        let mut into = [b'x'; 12];
        assert_eq!(join(&mut into, [b"/dev/fd/", b"70", b"/"]), Some(c"/dev/fd/70/"));
        assert_eq!(join(&mut into, [b"/dev/fd/", b"70", b"/x"]), None);
        assert_eq!(join(&mut into, [b"/dev/fd/", b"70", b"/", b"xy"]), None);
        assert_eq!(join(&mut into, [b"."]), Some(c"."));
    }

    #[test]
    fn file_names_have_five_digits_or_more() {
        for (value, want) in [(0, "00000"), (42, "00042"), (99_999, "99999"), (123_456, "123456")] {
            let mut p = Path { bytes: [0; 4200], len: 0 };
            p.decimal5(value);
            assert_eq!(&p.bytes[..p.len], want.as_bytes());
        }
    }
}
