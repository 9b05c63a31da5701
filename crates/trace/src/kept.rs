//! Copies that a trace holds of files of the machine: programs, libraries and
//! scripts that were made or changed while the recording ran, as they were when an
//! image was started from them, and the first line of every script.
//!
//! Apart from the list of opened files because a copy is known by its name alone:
//! whoever knows which file was opened, and its size and time then, finds it.

/// What names of copies begin with.
pub const PREFIX: &str = "kept-";
/// Bytes of such a name: the prefix, then hash of the path, size, seconds and nanoseconds of the last change, hexadecimal.
pub const NAME_BYTES: usize = PREFIX.len() + 16 + 1 + 16 + 1 + 16 + 1 + 8;
/// Words of an entry in the list that a replay's processes have: the link of the image (see [`link`]), hash of the path,
/// size, seconds and nanoseconds of the last change, device and inode; [`crate::opened::SEEN`] for a folder that is gone.
pub const ENTRY_WORDS: usize = 7;

/// Names a path, given in two parts.
pub fn hash(path: [&[u8]; 2]) -> u64 {
    const OFFSET: u64 = 0xCBF2_9CE4_8422_2325;
    const PRIME: u64 = 0x100_0000_01B3;
    let bytes = path.into_iter().flatten();
    bytes.fold(OFFSET, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// The name of the copy of a file: hash of its path, and its size, seconds and nanoseconds of its last change.
pub fn name(hash: u64, identity: [u64; 3]) -> [u8; NAME_BYTES] {
    let mut name = [b'-'; NAME_BYTES];
    name[..PREFIX.len()].copy_from_slice(PREFIX.as_bytes());
    let mut at = PREFIX.len();
    for (value, digits) in [(hash, 16), (identity[0], 16), (identity[1], 16), (identity[2], 8)] {
        for place in 0..digits {
            let digit = (value >> (4 * (digits - 1 - place)) & 15) as u8;
            name[at + place] = if digit < 10 { b'0' + digit } else { b'a' + digit - 10 };
        }
        at += digits + 1;
    }
    name
}

/// Whether a file of a trace folder is such a copy, and whole: one that is being made has a longer name.
pub fn is_name(text: &str) -> bool {
    let hexadecimal = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-');
    text.len() == NAME_BYTES && text.strip_prefix(PREFIX).is_some_and(|rest| rest.bytes().all(hexadecimal))
}

/// Names an image by the thread that started it and how-manieth child of that it is; the first one by no thread.
pub fn link(parent: u32, child_number: u32) -> u64 {
    u64::from(parent) << 32 | u64::from(child_number)
}

/// Whether a file whose state changed then was made, changed or given its name since a recording began.
pub fn is_young(status_changed: [u64; 2], since: [u64; 2]) -> bool {
    status_changed >= since
}

#[cfg(test)]
mod tests {
    use super::{hash, is_name, is_young, link, name};

    #[test]
    fn a_copy_is_named_by_path_size_and_time() {
        let told = |path, identity| String::from_utf8(name(hash([path, b""]), identity).to_vec()).unwrap();
        let one = told(b"/tmp/a", [0x1234, 0x66, 0x3B9A_C9FF]);
        assert!(is_name(&one) && one.ends_with("-0000000000001234-0000000000000066-3b9ac9ff"), "{one}");
        assert_ne!(one, told(b"/tmp/b", [0x1234, 0x66, 0x3B9A_C9FF]));
        assert!(!is_name(&format!("{one}.7")) && !is_name("kept-") && !is_name("p00000.trace"));
        assert_eq!(hash([b"/tmp", b"/a"]), hash([b"/tmp/a", b""]));
        assert_ne!(link(1, 2), link(2, 1));
    }

    #[test]
    fn young_is_what_changed_since() {
        assert!(is_young([5, 7], [5, 7]) && is_young([6, 0], [5, 7]));
        assert!(!is_young([5, 6], [5, 7]) && !is_young([6, 0], [u64::MAX; 2]));
    }
}
