//! Whether a program was built with `ThreadSanitizer`, which wants all of the address space in its own order.
//!
//! Apart from other obstacles because the names that a program knows its libraries' functions by say so, not its head.

use object::LittleEndian;
use object::elf::{DT_STRSZ, DT_STRTAB, FileHeader64, PT_DYNAMIC, PT_LOAD, ProgramHeader64};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// What each of its programs calls first.
const INIT: &[u8] = b"\0__tsan_init\0";
/// No table of names is larger.
const NAMES_MAX: u64 = 1 << 30;

/// Whether the program in `file`, which begins with `head`, was. `false` where that can't be told.
pub(super) fn by_threads(file: &File, head: &[u8]) -> bool {
    names(file, head).is_some_and(|names| names.windows(INIT.len()).any(|part| part == INIT))
}

/// The names that its dynamic symbols have.
fn names(file: &File, head: &[u8]) -> Option<Vec<u8>> {
    let header = FileHeader64::<LittleEndian>::parse(head).ok()?;
    let segments: &[ProgramHeader64<_>] = header.program_headers(LittleEndian, head).ok()?;
    let of = |kind| segments.iter().filter(move |segment| segment.p_type(LittleEndian) == kind);
    let (offset, bytes) = of(PT_DYNAMIC).next()?.file_range(LittleEndian);
    let dynamic = read(file, offset, bytes)?;
    let word = |bytes: &[u8]| bytes.first_chunk().map(|word| u64::from_le_bytes(*word));
    let entry = |wanted: u32| {
        let mut entries = dynamic.chunks_exact(16);
        entries.find(|entry| word(entry) == Some(wanted.into())).and_then(|entry| word(&entry[8..]))
    };
    let (address, bytes) = (entry(DT_STRTAB)?, entry(DT_STRSZ)?);
    let holds = |segment: &&ProgramHeader64<LittleEndian>| {
        address.checked_sub(segment.p_vaddr(LittleEndian)).is_some_and(|at| at < segment.p_filesz(LittleEndian))
    };
    let segment = of(PT_LOAD).find(holds)?;
    read(file, address - segment.p_vaddr(LittleEndian) + segment.p_offset(LittleEndian), bytes)
}

fn read(file: &File, offset: u64, bytes: u64) -> Option<Vec<u8>> {
    let end = offset.checked_add(bytes)?;
    if bytes > NAMES_MAX || end > file.metadata().ok()?.len() {
        return None;
    }
    let mut content = vec![0; usize::try_from(bytes).ok()?];
    file.read_exact_at(&mut content, offset).ok()?;
    Some(content)
}
