//! The same instructions without a trap: a jump leads to a piece of code near by,
//! which does what the trap's handler would have done.
//!
//! A jump has five bytes, the instructions have two or more. What the jump takes
//! besides runs in the piece:
//!
//! ```text
//! 0f 31        rdtsc          e9 …  jmp piece    piece:  instructions before it that were taken away
//! 48 c1 e2 20  shl rdx, 32    20    (never run)          call the routine, beyond the red zone
//! 48 09 d0     or rax, rdx    …                          instructions behind it that were taken away
//!                                                        jmp back
//! ```
//!
//! The routine lays all registers down, has the handler change those that the
//! instruction writes, and takes them up again.
//!
//! Nothing may come to the bytes behind the jump's first. Direct jumps are looked
//! for as in [`crate::sites`]; a function that jumps by a register or a table keeps
//! its traps, because nobody knows where to.

pub mod binding;
mod kept;
mod windows;

use super::places::{ALL, READ_EXEC, TRAP, protect};
use super::{Kind, Outside, Places};
use crate::decode::Instruction;
use crate::frames::{File, Known};
use crate::room::JUMP_BYTES;
use crate::room::Side;
use crate::room::moved::Code;
use crate::saved::{self, Handler, Saved};
use crate::sites;
use core::arch::global_asm;
use core::ops::Range;
use core::sync::atomic::{AtomicPtr, Ordering};
use kept::{INSTRUCTIONS, Lengths};
pub use kept::{copy_of, forget, original};
use windows::{Window, Windows};

const PIECE_BYTES: usize = 128;
/// Where a piece's code begins; the instruction's description stands before it.
const CODE: usize = 32;
/// Where the routine's address stands, for those too far away from it to call it directly.
const ROUTINE: usize = PIECE_BYTES - 8;
const PAGE: usize = 4096;
/// Larger code is not looked through for jumps.
const CODE_MAX: usize = 16 << 20;
const _: () = assert!(size_of::<Outside>() <= CODE);

impl Saved {
    /// The instruction.
    pub fn outside(&self) -> Outside {
        // SAFETY: the routine is called from nowhere but pieces, which begin with it.
        unsafe { *((self.back() & !(PIECE_BYTES - 1)) as *const Outside) }
    }
}

#[repr(transparent)]
struct Target(AtomicPtr<()>);

static HANDLER: Target = Target(AtomicPtr::new(core::ptr::null_mut()));

global_asm!(saved::routine!("relive_outside"), handler = sym HANDLER);

unsafe extern "C" {
    fn relive_outside();
}

/// Makes those of the places in the code at `range`, which shows `file` from `offset` on, into jumps to `handler` that can
/// be. Returns how many there are.
///
/// # Safety
/// As for [`super::patch`], which has made them into traps.
pub unsafe fn make(places: &Places, range: &Range<usize>, file: &File, offset: usize, handler: Handler) -> usize {
    let range = &file.shown_in(range, offset);
    // Who asks for the processor alone does so once, and not in a loop.
    let is_often = |(_, outside): (usize, Outside)| !matches!(outside.kind, Kind::Processor | Kind::State);
    if range.len() > CODE_MAX || !places.wanted_in(range).any(is_often) {
        return 0;
    }
    let mut known = Known::of(file);
    let Some(code) = known.bytes().get(offset..offset + range.len()) else { return 0 };
    let windows = windows(places, range, offset, &mut known, code);
    let count = windows.as_slice().len();
    if count == 0 {
        return 0;
    }
    HANDLER.0.store(handler as *mut (), Ordering::Release);
    let bytes = (count * PIECE_BYTES).next_multiple_of(PAGE);
    let Some(pieces) = sites::map_near(range.start, range.end, bytes) else { return 0 };
    let mut made = 0;
    // SAFETY: the caller's promise; the code is writable while it is changed, and the pieces lie where they were mapped.
    unsafe {
        if protect(range, ALL) {
            for window in windows.as_slice().iter().flatten() {
                made += usize::from(change(window, range.start, code, pieces + made * PIECE_BYTES).is_some());
            }
            protect(range, READ_EXEC);
        }
        sites::protect(pieces, pieces + bytes, false);
    }
    made
}

/// What the jumps may take.
fn windows(places: &Places, range: &Range<usize>, offset: usize, known: &mut Known<'_>, code: &[u8]) -> Windows {
    let mut of = |side| {
        let mut windows = Windows::of(places, range, offset, known, side);
        windows.keep(|_, window| is_as_in_file(window, range, code));
        windows.drop_entered(code);
        windows
    };
    let mut windows = of(Side::Behind);
    if windows.as_slice().len() < places.wanted_in(range).count() {
        of(Side::Before).as_slice().iter().flatten().for_each(|&window| windows.insert(window));
    }
    windows
}

/// Whether nothing but the instruction itself has been changed.
fn is_as_in_file(window: &Window, range: &Range<usize>, code: &[u8]) -> bool {
    // SAFETY: mapped code that nobody changes meanwhile.
    let now = unsafe { core::slice::from_raw_parts((range.start + window.start) as *const u8, window.len()) };
    let at = window.place - window.start;
    let same = |(index, byte): (usize, &u8)| {
        let wanted = index.checked_sub(at).and_then(|index| TRAP.get(index)).unwrap_or(&code[window.start + index]);
        byte == wanted
    };
    now.iter().enumerate().all(same)
}

/// Code of a piece that is being written, and how long each instruction and its copy are.
struct Pairs<'a> {
    written: Code,
    code: &'a [u8],
    own: Lengths,
    copies: Lengths,
    count: usize,
}

impl Pairs<'_> {
    fn add(&mut self, own: usize, before: usize) -> Option<()> {
        *self.own.get_mut(self.count)? = own as u8;
        self.copies[self.count] = (self.written.address() - before) as u8;
        self.count += 1;
        Some(())
    }

    /// The instructions at these offsets of the code, which stands at `start`.
    fn moved(&mut self, at: Range<usize>, start: usize) -> Option<()> {
        let mut next = at.start;
        while next < at.end {
            let (before, code) = (self.written.address(), &self.code[next..at.end]);
            let length = Instruction::at(code)?.length;
            self.written.moved(&code[..length], start + next)?;
            self.add(length, before)?;
            next += length;
        }
        Some(())
    }
}

/// Writes a piece and the jump to it. `None`, with nothing changed, if something is too far away.
///
/// # Safety
/// The window of the writable code at `start` and the piece must be the caller's to change.
unsafe fn change(window: &Window, start: usize, code: &[u8], piece: usize) -> Option<()> {
    let behind = window.place + window.outside.length;
    let written = Code::at(piece + CODE, ROUTINE - CODE);
    let mut pairs = Pairs { written, code, own: [0; INSTRUCTIONS], copies: [0; INSTRUCTIONS], count: 0 };
    pairs.moved(window.start..window.place, start)?;
    let before = pairs.written.address();
    // lea rsp, [rsp - 128]; call …; lea rsp, [rsp + 128]
    pairs.written.put(&[0x48, 0x8D, 0x64, 0x24, 0x80])?;
    let routine = relive_outside as *const () as usize;
    // As in the pieces of sites, nothing is read where that can be.
    if sites::reaches(pairs.written.address(), routine) {
        pairs.written.put(&[0xE8])?;
        pairs.written.distance_to(routine)?;
    } else {
        pairs.written.put(&[0xFF, 0x15])?;
        pairs.written.distance_to(piece + ROUTINE)?;
    }
    pairs.written.put(&[0x48, 0x8D, 0xA4, 0x24, 0x80, 0, 0, 0])?;
    pairs.add(window.outside.length, before)?;
    pairs.moved(behind..window.end, start)?;
    pairs.written.jump(start + window.end)?;
    let mut jump = Code::at(start + window.start, JUMP_BYTES);
    jump.jump(piece + CODE)?;
    if !kept::keep(start + window.start, piece + CODE, pairs.own, pairs.copies) {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe {
        (piece as *mut Outside).write(window.outside);
        ((piece + ROUTINE) as *mut usize).write(routine);
        pairs.written.write();
        jump.write();
    }
    Some(())
}
