//! The headers of a program file, as far as starting it needs them.

/// A dynamically linked x86-64 program, or its loader.
#[derive(Clone, Copy, Debug)]
pub struct Elf {
    /// Linked to no fixed address.
    pub movable: bool,
    /// Where it starts to run.
    pub entry: usize,
    /// Offset of the program headers in the file.
    pub headers: usize,
    /// Their number.
    pub count: usize,
}

/// One program header.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// `p_type`.
    pub kind: u32,
    /// `p_flags`.
    pub flags: u32,
    /// Offset in the file.
    pub offset: usize,
    /// Address.
    pub address: usize,
    /// Bytes in the file.
    pub in_file: usize,
    /// Bytes in memory.
    pub in_memory: usize,
    /// Alignment.
    pub align: usize,
}

/// `PT_LOAD`.
pub const LOAD: u32 = 1;
/// `PT_INTERP`.
pub const INTERPRETER: u32 = 3;
/// `PT_NOTE`.
const NOTE: u32 = 4;
/// `PT_PHDR`.
pub const HEADERS: u32 = 6;
/// `PT_GNU_STACK`.
pub const STACK: u32 = 0x6474_E551;
/// `PF_X`.
pub const EXECUTABLE: u32 = 1;
/// `PF_W`.
pub const WRITABLE: u32 = 2;
/// `PF_R`.
pub const READABLE: u32 = 4;
/// Bytes of one program header.
pub const HEADER_BYTES: usize = 56;
/// Enough of a file for its headers, or for the first line of a script.
pub const HEAD_BYTES: usize = 2048;

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + N)?;
    Some(bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

impl Elf {
    /// Reads the start of a file; `None` if it is none that is handled here, or its headers are not within `head`.
    pub fn read(head: &[u8]) -> Option<Self> {
        const EXEC: u64 = 2;
        const DYN: u64 = 3;
        const X86_64: u64 = 62;
        let kind = number::<2>(head, 16)?;
        let known = head.starts_with(b"\x7FELF\x02\x01") && number::<2>(head, 18)? == X86_64;
        if !known || (kind != EXEC && kind != DYN) || number::<2>(head, 54)? != HEADER_BYTES as u64 {
            return None;
        }
        let found = Self {
            movable: kind == DYN,
            entry: number::<8>(head, 24)? as usize,
            headers: number::<8>(head, 32)? as usize,
            count: number::<2>(head, 56)? as usize,
        };
        let end = found.headers.checked_add(found.count * HEADER_BYTES)?;
        (end <= head.len()).then_some(found)
    }

    /// Its program headers.
    pub fn segments<'a>(&self, head: &'a [u8]) -> impl Iterator<Item = Segment> + use<'a> {
        let (first, count) = (self.headers, self.count);
        (0..count).filter_map(move |index| {
            let at = first + index * HEADER_BYTES;
            let word = |offset| number::<8>(head, at + offset).map(|value| value as usize);
            Some(Segment {
                kind: number::<4>(head, at)? as u32,
                flags: number::<4>(head, at + 4)? as u32,
                offset: word(8)?,
                address: word(16)?,
                in_file: word(32)?,
                in_memory: word(40)?,
                align: word(48)?,
            })
        })
    }

    /// Where the file says which loader it wants: offset and length with a final zero.
    pub fn interpreter(&self, head: &[u8]) -> Option<(usize, usize)> {
        self.segments(head).find(|segment| segment.kind == INTERPRETER).map(|segment| (segment.offset, segment.in_file))
    }
}

/// Whether a file that begins with `head` was made by a Go compiler, as a note in it says. `read` fills a buffer from an
/// offset of the file on, and returns how many bytes there were.
pub fn is_go(head: &[u8], mut read: impl FnMut(&mut [u8], usize) -> usize) -> bool {
    /// On the stack of whoever starts a program, which may be a small one.
    const NOTES_MAX: usize = 512;
    let Some(elf) = Elf::read(head) else { return false };
    elf.segments(head).filter(|segment| segment.kind == NOTE).any(|segment| {
        let mut notes = [0; NOTES_MAX];
        let notes = &mut notes[..segment.in_file.min(NOTES_MAX)];
        let got = read(notes, segment.offset).min(notes.len());
        has_go_note(&notes[..got])
    })
}

fn has_go_note(mut notes: &[u8]) -> bool {
    const BUILD_ID: u64 = 4;
    const HEAD: usize = 12;
    loop {
        let word = |at| number::<4>(notes, at);
        let (Some(name), Some(text), Some(kind)) = (word(0), word(4), word(8)) else { return false };
        let (name, text) = (name as usize, text as usize);
        if kind == BUILD_ID && notes.get(HEAD..HEAD + name) == Some(b"Go\0\0") {
            return true;
        }
        let Some(rest) = notes.get(HEAD + name.next_multiple_of(4) + text.next_multiple_of(4)..) else { return false };
        notes = rest;
    }
}

/// The first line of a script: its interpreter, and the one argument that it may give it.
pub fn script(head: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    /// The kernel looks no further.
    const LINE_MAX: usize = 256;
    let rest = head.strip_prefix(b"#!")?;
    let rest = &rest[..rest.len().min(LINE_MAX - 2)];
    let end = rest.iter().position(|&byte| byte == b'\n' || byte == 0);
    let line = rest[..end.unwrap_or(rest.len())].trim_ascii();
    let name = line.split(|&byte| byte == b' ' || byte == b'\t').next().filter(|name| !name.is_empty())?;
    // A name that is cut off is none.
    if end.is_none() && name.len() == line.len() && rest.len() == LINE_MAX - 2 {
        return None;
    }
    let argument = line[name.len()..].trim_ascii();
    Some((name, (!argument.is_empty()).then_some(argument)))
}

#[cfg(test)]
mod tests {
    use super::{Elf, LOAD, script};

    #[test]
    fn go_is_known_by_its_note_among_others() {
        let note = |kind: u8, name: &[u8], text: &[u8]| {
            let mut note = Vec::new();
            for word in [name.len() as u32, text.len() as u32, u32::from(kind)] {
                note.extend(word.to_le_bytes());
            }
            for part in [name, text] {
                note.extend(part);
                note.resize(note.len().next_multiple_of(4), 0);
            }
            note
        };
        let (gnu, go) = (note(3, b"GNU\0", b"0123456"), note(4, b"Go\0\0", b"id"));
        for (notes, found) in [(vec![&gnu, &go], true), (vec![&go], true), (vec![&gnu], false), (vec![], false)] {
            let notes: Vec<u8> = notes.into_iter().flatten().copied().collect();
            assert_eq!(super::has_go_note(&notes), found);
            assert!(!super::has_go_note(&notes[..notes.len().min(14)]));
        }
        let huge = [0xFF; 40];
        assert!(!super::has_go_note(&huge));
    }

    #[test]
    fn a_program_has_segments_and_a_loader() {
        let bytes = std::fs::read("/bin/true").unwrap();
        let elf = Elf::read(&bytes[..2048]).unwrap();
        assert!(elf.segments(&bytes).any(|segment| segment.kind == LOAD));
        let (at, length) = elf.interpreter(&bytes).unwrap();
        assert!(bytes[at..at + length].ends_with(b".so.2\0"));
        assert!(Elf::read(&bytes[..100]).is_none() && Elf::read(b"#!/bin/sh").is_none());
    }

    #[test]
    fn a_script_names_its_interpreter_and_one_argument() {
        assert_eq!(script(b"#!/bin/sh\nx"), Some((&b"/bin/sh"[..], None)));
        assert_eq!(
            script(b"#! \t/usr/bin/env  python3 -u \nx"),
            Some((&b"/usr/bin/env"[..], Some(&b"python3 -u"[..])))
        );
        assert_eq!(script(b"#!/bin/sh"), Some((&b"/bin/sh"[..], None)));
        assert_eq!(script(b"#!\n"), None);
        assert_eq!(script(b"echo"), None);
        assert_eq!(script(&[&b"#!/"[..], &[b'a'; 300]].concat()), None);
    }
}
