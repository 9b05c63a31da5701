//! Maps a program and its loader.

use crate::fail;
use crate::outside;
use crate::scratch::{Scratch, map};
use crate::script;
use core::ffi::CStr;
use core::ops::Range;
use relive_sys::elf::{EXECUTABLE, Elf, HEADERS, LOAD, READABLE, STACK, Segment, WRITABLE};
use relive_sys::outside::Places;
use relive_sys::start::{Break, Handover, PROGRAM};
use relive_sys::syscall::number::MMAP;
use relive_sys::syscall::{self, syscall6};

const PAGE: usize = 4096;
const MAP_PRIVATE: usize = 2;
const MAP_FIXED: usize = 0x10;
const MAP_FIXED_NOREPLACE: usize = 0x10_0000;

/// A mapped file.
#[derive(Debug)]
pub(crate) struct Mapped {
    /// What is added to its addresses.
    pub(crate) bias: usize,
    pub(crate) entry: usize,
    /// Address and number of its program headers.
    pub(crate) headers: [usize; 2],
}

/// A program with its loader.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) own: Mapped,
    pub(crate) loader: Mapped,
    /// First and last byte of code and of data.
    pub(crate) code: [usize; 2],
    pub(crate) data: [usize; 2],
    pub(crate) end_of_data: Break,
    pub(crate) stack_executable: bool,
}

/// The pages from the first to the last segment that is loaded.
fn span(elf: &Elf, head: &[u8]) -> Option<Range<usize>> {
    let loaded = || elf.segments(head).filter(|segment| segment.kind == LOAD);
    let start = loaded().map(|segment| segment.address).min()?;
    let end = loaded().map(|segment| segment.address.checked_add(segment.in_memory)).max()??;
    Some(start & !(PAGE - 1)..end.checked_next_multiple_of(PAGE)?)
}

/// Maps the program in an open file, and the loader that it names.
pub(crate) fn program(path: &CStr, fd: u32, head: &[u8], scratch: &mut Scratch, handover: &mut Handover) -> Program {
    let Some((elf, span)) = Elf::read(head).and_then(|elf| Some((elf, span(&elf, head)?))) else {
        fail(path, "it is no 64-bit x86 program", 0)
    };
    let segments = || elf.segments(head);
    let align = segments().filter(|segment| segment.kind == LOAD).map(|segment| segment.align).max().unwrap_or(PAGE);
    let base = PROGRAM.next_multiple_of(align.clamp(PAGE, 1 << 30));
    let bias = if elf.movable { base.wrapping_sub(span.start) } else { 0 };
    let own = map_at(path, fd, (&elf, head), bias, handover.places);
    let range = |flag: u32| {
        let wanted = || segments().filter(move |segment| segment.kind == LOAD && segment.flags & flag != 0);
        let start = wanted().map(|segment| segment.address).min().unwrap_or(span.start);
        let end = wanted().map(|segment| segment.address + segment.in_file).max().unwrap_or(start);
        [bias.wrapping_add(start), bias.wrapping_add(end)]
    };
    let Some((at, length)) = elf.interpreter(head) else { fail(path, "it is statically linked", 0) };
    let name = scratch.take(length + 1);
    // SAFETY: fresh memory of this size, with a zero behind the text.
    let name = unsafe {
        syscall::read_at(fd, core::slice::from_raw_parts_mut(name, length), at as u64);
        CStr::from_ptr(name.cast())
    };
    let loader = map_loader(name, scratch, handover);
    if let Some(end_of_data) = Break::behind(span.end).filter(|_| !elf.movable && !outside::is_break_far()) {
        handover.end_of_data = end_of_data;
    }
    let end_of_data = handover.end_of_data;
    let stack = segments().find(|segment| segment.kind == STACK);
    let stack_executable = stack.is_some_and(|segment| segment.flags & EXECUTABLE != 0);
    Program { own, loader, code: range(EXECUTABLE), data: range(WRITABLE), end_of_data, stack_executable }
}

fn map_loader(name: &CStr, scratch: &mut Scratch, handover: &mut Handover) -> Mapped {
    let (fd, head) = script::open(name, scratch, handover);
    let Some((elf, span)) = Elf::read(head).and_then(|elf| Some((elf, span(&elf, head)?))) else {
        fail(name, "it is no 64-bit x86 loader", 0)
    };
    let bias = if elf.movable {
        handover.lowest -= span.len();
        handover.lowest.wrapping_sub(span.start)
    } else {
        0
    };
    let mapped = map_at(name, fd, (&elf, head), bias, handover.places);
    syscall::close(fd);
    mapped
}

fn map_at(path: &CStr, fd: u32, (elf, head): (&Elf, &[u8]), bias: usize, places: Option<&Places>) -> Mapped {
    let mut headers = 0;
    let mut fixed = MAP_FIXED_NOREPLACE;
    for segment in elf.segments(head) {
        let at = bias.wrapping_add(segment.address);
        match segment.kind {
            LOAD => {
                map_segment(path, fd, &segment, at, fixed, places);
                // Later segments may share a page with the one before.
                fixed = MAP_FIXED;
                if headers == 0 && (segment.offset..segment.offset + segment.in_file).contains(&elf.headers) {
                    headers = at + (elf.headers - segment.offset);
                }
            }
            HEADERS => headers = at,
            _ => {}
        }
    }
    Mapped { bias, entry: bias.wrapping_add(elf.entry), headers: [headers, elf.count] }
}

fn protection(flags: u32) -> usize {
    const BITS: [(u32, usize); 3] = [(READABLE, 1), (WRITABLE, 2), (EXECUTABLE, 4)];
    BITS.iter().filter(|(flag, _)| flags & flag != 0).map(|(_, bit)| bit).sum()
}

fn map_segment(path: &CStr, fd: u32, segment: &Segment, at: usize, fixed: usize, places: Option<&Places>) {
    let protection = protection(segment.flags);
    let (start, skipped) = (at & !(PAGE - 1), at % PAGE);
    let (end_of_file, end) = (at + segment.in_file, at + segment.in_memory);
    if segment.in_file > 0 {
        let (length, offset) = (segment.in_file + skipped, segment.offset.wrapping_sub(skipped));
        // SAFETY: the program's own place; nothing lies there but an earlier segment of it.
        let found = unsafe { syscall6(MMAP, start, length, protection, MAP_PRIVATE | fixed, fd as usize, offset) };
        if found != start as isize {
            fail(path, "it can't be mapped where it belongs", found);
        }
        if segment.flags & (EXECUTABLE | WRITABLE) == EXECUTABLE {
            // SAFETY: the mapping that was just made.
            unsafe { outside::mapped(places, start..start + length, fd, offset) };
        }
    }
    let whole = if segment.in_file > 0 { end_of_file.next_multiple_of(PAGE) } else { start };
    if end > whole {
        let found = map(whole, end - whole, if fixed == MAP_FIXED { MAP_FIXED } else { 0 }, protection);
        if found != whole as isize {
            fail(path, "its memory can't be mapped where it belongs", found);
        }
    }
    if segment.in_memory > segment.in_file && segment.in_file > 0 && segment.flags & WRITABLE != 0 {
        // SAFETY: the rest of the file's last page, writable.
        unsafe { core::ptr::write_bytes(end_of_file as *mut u8, 0, whole - end_of_file) };
    }
}
