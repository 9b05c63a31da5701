//! What a recorded process asks the launcher for where it may not open it by name:
//! one that has become another user. The launcher answers with a descriptor.
//!
//! Apart from the shared memory because that is one of the things asked for.

/// Bytes of a request.
pub const REQUEST_BYTES: usize = 16;
/// Bytes of the name that the launcher listens by, in the abstract name space of sockets.
pub const NAME_BYTES: usize = PREFIX.len() + DIGITS;

const PREFIX: &[u8; 7] = b"relive/";
const DIGITS: usize = 10;

/// A file of the session. Numbers are those of process images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The memory that the session shares.
    Control,
    /// The starter, to be executed.
    Starter,
    /// The library to preload.
    Library,
    /// The data file of an image, which the launcher has made.
    Data(u32),
    /// The inputs file of an image.
    Inputs(u32),
    /// The list of files that images were started from, to append to it.
    Opened,
    /// The file that a descriptor of who asks is open for, once the trace holds a copy of it.
    Kept {
        /// The descriptor.
        descriptor: u32,
        /// The hash of the file's path, which the copy is named by ([`crate::kept::hash`]).
        path: u64,
    },
}

impl Wanted {
    /// As it is sent.
    pub fn to_bytes(self) -> [u8; REQUEST_BYTES] {
        let (what, number, path) = match self {
            Wanted::Control => (1u32, 0, 0),
            Wanted::Starter => (2, 0, 0),
            Wanted::Library => (3, 0, 0),
            Wanted::Data(image) => (4, image, 0),
            Wanted::Inputs(image) => (5, image, 0),
            Wanted::Opened => (6, 0, 0),
            Wanted::Kept { descriptor, path } => (7, descriptor, path),
        };
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&what.to_le_bytes());
        bytes[4..8].copy_from_slice(&number.to_le_bytes());
        bytes[8..].copy_from_slice(&path.to_le_bytes());
        bytes
    }

    /// What was sent, if it can have been.
    pub fn from_bytes(bytes: [u8; REQUEST_BYTES]) -> Option<Self> {
        let ([what, number], path) = (words(&bytes), bytes.last_chunk().copied().map(u64::from_le_bytes)?);
        let wanted = match what {
            1 => Wanted::Control,
            2 => Wanted::Starter,
            3 => Wanted::Library,
            4 => Wanted::Data(number),
            5 => Wanted::Inputs(number),
            6 => Wanted::Opened,
            7 => Wanted::Kept { descriptor: number, path },
            _ => return None,
        };
        (wanted.to_bytes() == bytes).then_some(wanted)
    }
}

/// The first two words of four bytes.
fn words(bytes: &[u8; REQUEST_BYTES]) -> [u32; 2] {
    let (words, _) = bytes.as_chunks();
    [0, 1].map(|at| u32::from_le_bytes(words[at]))
}

/// The name that the launcher with this process id listens by.
pub fn name(launcher: u32) -> [u8; NAME_BYTES] {
    let mut name = [b'0'; NAME_BYTES];
    name[..PREFIX.len()].copy_from_slice(PREFIX);
    let mut left = launcher;
    for digit in name[PREFIX.len()..].iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
    name
}

/// The launcher's process id, by the path of the session's memory (`/proc/ID/fd/NUMBER`, with slashes in front of the id).
pub fn launcher_of(control: &[u8]) -> Option<u32> {
    let rest = control.strip_prefix(b"/proc/")?;
    let start = rest.iter().position(|&byte| byte != b'/')?;
    let digits = rest[start..].split(|&byte| byte == b'/').next()?;
    let decimal = |value: u32, &digit: &u8| {
        let digit = digit.is_ascii_digit().then(|| u32::from(digit - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    };
    digits.iter().try_fold(0, decimal)
}

#[cfg(test)]
mod tests {
    use super::{Wanted, launcher_of, name};

    #[test]
    fn requests_are_read_as_they_were_made_and_nothing_else_is() {
        let all = [
            Wanted::Control,
            Wanted::Starter,
            Wanted::Library,
            Wanted::Data(0),
            Wanted::Data(u32::MAX),
            Wanted::Inputs(258),
            Wanted::Opened,
            Wanted::Kept { descriptor: 3, path: u64::MAX - 1 },
        ];
        for wanted in all {
            assert_eq!(Wanted::from_bytes(wanted.to_bytes()), Some(wanted));
        }
        for (at, value) in [(0, 0), (0, 8), (1, 1), (4, 1), (15, 1)] {
            let mut bytes = Wanted::Control.to_bytes();
            bytes[at] = value;
            assert_eq!(Wanted::from_bytes(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn the_launcher_is_known_by_the_path_of_its_memory() {
        assert_eq!(launcher_of(b"/proc////////12/fd/////////7\0"), Some(12));
        assert_eq!(launcher_of(b"/proc/4294967295/fd/7"), Some(u32::MAX));
        for path in [&b"/c"[..], b"/proc/", b"/proc/self/fd/7", b"/proc/4294967296/fd/7"] {
            assert_eq!(launcher_of(path), None);
        }
        assert_eq!(&name(12), b"relive/0000000012");
        assert_eq!(&name(u32::MAX), b"relive/4294967295");
    }
}
