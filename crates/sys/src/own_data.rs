//! Takes the data of the library that contains this code out of what the loader tells of it.
//!
//! Collectors of garbage look through the writable segments of all libraries for pointers, as `dl_iterate_phdr` names them
//! (Boehm's, in Guile and many others). Ours has megabytes that no pointer of theirs is in, and in a replay other
//! content: what looks like a pointer keeps a block alive. The loader tells of the headers that are mapped with the library;
//! it needs those of its data no more once it has made it ready. Its code stays known, for unwinders.
//!
//! Apart from [`crate::elf`], which reads files and changes nothing.

use crate::elf::{self, Elf, HEADER_BYTES};
use crate::signal::own_code;
use crate::syscall;

/// `PT_NULL`: whoever reads the headers passes over it.
const NOTHING: u32 = 0;
/// `PT_GNU_RELRO`: a part of the data.
const READ_ONLY_AFTER_RELOCATION: u32 = 0x6474_E552;
const PAGE: usize = 4096;

/// Whether nothing but the data is meant by a segment.
fn is_data(segment: &elf::Segment) -> bool {
    segment.kind == READ_ONLY_AFTER_RELOCATION || segment.kind == elf::LOAD && segment.flags & elf::WRITABLE != 0
}

/// What `mprotect` takes for the flags of a segment.
fn protection(flags: u32) -> usize {
    let readable = usize::from(flags & elf::READABLE != 0);
    readable | usize::from(flags & elf::WRITABLE != 0) << 1 | usize::from(flags & elf::EXECUTABLE != 0) << 2
}

/// Hides it, if the kernel lets the headers be changed.
///
/// # Safety
/// Once the loader has made the library ready, with no other thread there yet.
pub unsafe fn hide() {
    let start = own_code().start;
    // SAFETY: the linker's symbol for where the file begins that is mapped there, and a page of it at least is.
    let head = unsafe { core::slice::from_raw_parts_mut(start as *mut u8, elf::HEAD_BYTES) };
    let Some(found) = Elf::read(head) else { return };
    let Some(around) = found.segments(head).find(|segment| segment.kind == elf::LOAD && segment.offset == 0) else {
        return;
    };
    // SAFETY: the page of the headers, which nobody else changes; it may be executed from as before all the time.
    if !unsafe { protect(start, protection(around.flags | elf::WRITABLE)) } {
        return;
    }
    for index in 0..found.count {
        if found.segments(head).nth(index).is_some_and(|segment| is_data(&segment)) {
            let at = found.headers + index * HEADER_BYTES;
            head[at..at + size_of::<u32>()].copy_from_slice(&NOTHING.to_le_bytes());
        }
    }
    // SAFETY: as it was.
    unsafe { protect(start, protection(around.flags)) };
}

/// Of the page at the beginning of the file.
unsafe fn protect(page: usize, protection: usize) -> bool {
    // SAFETY: the caller's.
    unsafe { syscall::syscall6(syscall::number::MPROTECT, page, PAGE, protection, 0, 0, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::{PAGE, READ_ONLY_AFTER_RELOCATION, is_data, protection};
    use crate::elf::{EXECUTABLE, LOAD, READABLE, Segment, WRITABLE};

    fn segment(kind: u32, flags: u32) -> Segment {
        Segment { kind, flags, offset: 0, address: 0, in_file: 0, in_memory: 0, align: PAGE }
    }

    #[test]
    fn data_is_what_can_be_written_or_could_until_relocation() {
        let kinds = [
            (LOAD, READABLE, false),
            (LOAD, READABLE | EXECUTABLE, false),
            (LOAD, READABLE | WRITABLE, true),
            (READ_ONLY_AFTER_RELOCATION, READABLE, true),
            // `PT_DYNAMIC`: tables that stay known.
            (2, READABLE | WRITABLE, false),
        ];
        for (kind, flags, wanted) in kinds {
            assert_eq!(is_data(&segment(kind, flags)), wanted, "{kind:#x} {flags}");
        }
    }

    #[test]
    fn flags_become_what_mprotect_takes() {
        assert_eq!(protection(READABLE), 1);
        assert_eq!(protection(READABLE | EXECUTABLE), 5);
        assert_eq!(protection(READABLE | WRITABLE | EXECUTABLE), 7);
    }
}
