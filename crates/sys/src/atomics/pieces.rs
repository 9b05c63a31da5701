//! The pieces of code that changed instructions run in.
//!
//! The pieces of one mapping stand in a row, by ascending places of their instructions, and
//! what each one is stands in front of it: so a handler finds them without a lock, while
//! other threads map libraries.

use super::access::{Access, Operand};
use super::sites::{Site, TRAP_BYTES};
use crate::decode::Instruction;
use crate::room::JUMP_BYTES;
use crate::room::moved::Code;
use crate::saved::{self, Handler, RED_ZONE, Saved};
use crate::sites::{map_near, protect, reaches};
use crate::tls;
use core::arch::global_asm;
use core::ops::Range;
use core::sync::atomic::{AtomicIsize, AtomicPtr, AtomicUsize, Ordering};

const PIECE_BYTES: usize = 128;
/// Where a piece's code begins.
const CODE: usize = size_of::<Head>();
/// Where the routines' addresses stand, for those too far away to call them directly.
const ROUTINES: usize = PIECE_BYTES - 16;
const PAGE: usize = 4096;
/// `ud2`.
const TRAP: [u8; TRAP_BYTES] = [0x0F, 0x0B];
/// Bytes of a jump over a short distance; moved, it is one over a long one.
const SHORT_JUMP: usize = 2;
/// Mappings with pieces, at most.
const MOST: usize = 512;

/// What a piece is.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Head {
    operand: Operand,
    place: usize,
    /// What the jump takes before the instruction and from it on, as in [`Site`]; none for a trap.
    room: [u8; 2],
    length: u8,
    /// Bytes of the piece's code before the first call, and of both calls with the instruction.
    before: u8,
    between: u8,
    /// Which of the other instructions were jumps over a short distance, by bits.
    short_jumps: u8,
    /// Another piece leads here: a jump has taken the instruction's bytes as well.
    covered: bool,
    /// As in [`Site`].
    spins: bool,
}

const _: () = assert!(size_of::<Head>() == 32);

/// Where in a thread's storage the word with the address of its lock is. The starter, which has the routine as well, has
/// none.
static SLOT: AtomicIsize = AtomicIsize::new(0);

#[repr(transparent)]
struct Target(AtomicPtr<()>);

static ENTER: Target = Target(AtomicPtr::new(core::ptr::null_mut()));
static LEAVE: Target = Target(AtomicPtr::new(core::ptr::null_mut()));

global_asm!(saved::routine!("relive_atomic_enter"), handler = sym ENTER);
global_asm!(saved::routine!("relive_atomic_leave_whole"), handler = sym LEAVE);
// Where there is a lock, to free it is all that is to be done: no flag changes by that. Where there is none, in a replay, the rest is
// done aside (`crate::aside`), from the first register that is laid down on: where a recording lays down nothing behind the
// instruction, a replay may not, either. What stands at the end of the stack aside: rax, and the program's stack pointer.
global_asm!(
    saved::begins!("relive_atomic_leave"),
    "push rcx",
    ".cfi_adjust_cfa_offset 8",
    "mov rcx, qword ptr [rip + {slot}]",
    "mov rcx, qword ptr fs:[rcx]",
    "jrcxz 2f",
    "mov dword ptr [rcx], 0",
    "pop rcx",
    ".cfi_adjust_cfa_offset -8",
    "ret",
    "2:",
    ".cfi_adjust_cfa_offset 8",
    "mov rcx, qword ptr [rip + {slot}]",
    "mov rcx, qword ptr fs:[rcx + {outer}]",
    "jrcxz 3f",
    "4:",
    "pop rcx",
    ".cfi_adjust_cfa_offset -8",
    "jmp relive_atomic_leave_whole",
    "3:",
    ".cfi_adjust_cfa_offset 8",
    "mov rcx, qword ptr [rip + {slot}]",
    "mov rcx, qword ptr fs:[rcx + {top}]",
    "jrcxz 4b",
    "mov qword ptr [rcx - 8], rsp",
    "mov qword ptr [rcx - 16], rax",
    "mov rax, qword ptr [rip + {slot}]",
    "mov qword ptr fs:[rax + {outer}], rsp",
    "lea rsp, [rcx - 16]",
    // The frame ends 16 bytes above the word at rsp + 8.
    ".cfi_escape 0x0f, 0x05, 0x77, 0x08, 0x06, 0x23, 0x10",
    "mov rax, qword ptr [rsp]",
    "call relive_atomic_leave_whole",
    "mov rax, qword ptr [rip + {slot}]",
    "mov rsp, qword ptr [rcx - 8]",
    ".cfi_def_cfa rsp, 16",
    "mov qword ptr fs:[rax + {outer}], 0",
    "mov rax, qword ptr [rcx - 16]",
    "pop rcx",
    ".cfi_adjust_cfa_offset -8",
    "ret",
    ".cfi_endproc",
    ".size relive_atomic_leave, . - relive_atomic_leave",
    slot = sym SLOT,
    outer = const tls::OUTER as isize - tls::HELD as isize,
    top = const tls::TOP as isize - tls::HELD as isize,
);

unsafe extern "C" {
    fn relive_atomic_enter();
    fn relive_atomic_leave();
}

/// The pieces of a mapping: its range, and theirs.
#[derive(Debug)]
struct Row {
    code: [AtomicUsize; 2],
    pieces: [AtomicUsize; 2],
}

static ROWS: [Row; MOST] =
    [const { Row { code: [const { AtomicUsize::new(0) }; 2], pieces: [const { AtomicUsize::new(0) }; 2] } }; MOST];

/// Empty where it is gone.
fn range(of: &[AtomicUsize; 2]) -> Range<usize> {
    match of[0].load(Ordering::Acquire) {
        0 => 0..0,
        start => start..of[1].load(Ordering::Relaxed),
    }
}

fn keep(code: &Range<usize>, pieces: &Range<usize>) -> bool {
    let Some(row) = ROWS.iter().find(|row| range(&row.code).start == 0) else { return false };
    row.pieces[0].store(pieces.start, Ordering::Relaxed);
    row.pieces[1].store(pieces.end, Ordering::Relaxed);
    row.code[1].store(code.end, Ordering::Relaxed);
    row.code[0].store(code.start, Ordering::Release);
    true
}

/// Rows that were used, most often none: handlers and watched accesses ask each time.
fn rows() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().take_while(|row| row.pieces[0].load(Ordering::Relaxed) != 0)
}

/// The code in a range is no more.
pub fn forget(gone: &Range<usize>) {
    let meets = |code: Range<usize>| code.start < gone.end && gone.start < code.end;
    for row in rows().filter(|row| meets(range(&row.code))) {
        row.code[0].store(0, Ordering::Release);
    }
}

/// # Safety
/// There must be a piece.
unsafe fn head(piece: usize) -> &'static Head {
    // SAFETY: the caller's promise; pieces stay, and nobody changes their heads.
    unsafe { &*(piece as *const Head) }
}

/// The piece around a place in it.
fn around(place: usize) -> Option<&'static Head> {
    let row = rows().find(|row| range(&row.pieces).contains(&place) && range(&row.code).start != 0)?;
    debug_assert!(row.pieces[0].load(Ordering::Relaxed).is_multiple_of(PIECE_BYTES));
    // SAFETY: it lies in a row.
    Some(unsafe { head(place & !(PIECE_BYTES - 1)) })
}

/// The last piece whose instruction begins at or before `place`, with its address.
fn before(place: usize) -> Option<(usize, &'static Head)> {
    let row = rows().find(|row| range(&row.code).contains(&place))?;
    let pieces = range(&row.pieces);
    // SAFETY: so many pieces stand in a row.
    let at = |index: usize| unsafe { head(pieces.start + index * PIECE_BYTES) };
    let (mut low, mut high) = (0, pieces.len() / PIECE_BYTES);
    while low < high {
        let middle = low.midpoint(high);
        if at(middle).place <= place { low = middle + 1 } else { high = middle }
    }
    let index = low.checked_sub(1)?;
    Some((pieces.start + index * PIECE_BYTES, at(index)))
}

/// Where a thread goes on that met the trap at `place`.
pub fn piece_of(place: usize) -> Option<usize> {
    before(place).filter(|(_, head)| head.place == place && head.room[1] == 0).map(|(piece, _)| piece + CODE)
}

/// A walk over what a piece does, instruction by instruction.
struct Walk<'a> {
    head: &'a Head,
    /// Moved instructions so far.
    count: u32,
}

impl Walk<'_> {
    /// Calls `visit` with the place of each instruction in `own`, and where it runs, from `copy` on, until that returns
    /// `true`.
    fn moved(&mut self, own: Range<usize>, copy: usize, visit: &mut impl FnMut(usize, Range<usize>) -> bool) -> bool {
        let (mut from, mut to) = (own.start, copy);
        while from < own.end {
            // SAFETY: a piece's code, up to the piece's end.
            let code = unsafe { core::slice::from_raw_parts(to as *const u8, PIECE_BYTES - to % PIECE_BYTES) };
            let Some(found) = Instruction::at(code) else { return false };
            if visit(from, to..to + found.length) {
                return true;
            }
            from += if self.head.short_jumps >> self.count & 1 != 0 { SHORT_JUMP } else { found.length };
            to += found.length;
            self.count += 1;
        }
        false
    }
}

fn walk(head: &Head, piece: usize, mut visit: impl FnMut(usize, Range<usize>) -> bool) -> bool {
    let [before, after] = head.room.map(usize::from);
    let first = piece + CODE;
    let middle = first + usize::from(head.before);
    let behind = middle + usize::from(head.between);
    let own = head.place + usize::from(head.length);
    let mut walk = Walk { head, count: 0 };
    walk.moved(head.place - before..head.place, first, &mut visit)
        || visit(head.place, middle..behind)
        || walk.moved(own..own.max(head.place + after), behind, &mut visit)
}

/// Which of some instructions are jumps over a short distance, as bits from the `count`th on.
fn short_jumps(code: &[u8], count: &mut u32) -> Option<u8> {
    let (mut at, mut bits) = (0, 0);
    while at < code.len() {
        let found = Instruction::at(&code[at..])?;
        let is_short = found.map == 0 && matches!(found.opcode, 0x70..=0x7F | 0xEB);
        if is_short && (found.length != SHORT_JUMP || *count >= u8::BITS) {
            return None;
        }
        bits |= u8::from(is_short) << (*count & 7);
        *count += 1;
        at += found.length;
    }
    Some(bits)
}

/// The instruction that runs at `place`, a place in a piece.
pub fn original(place: usize) -> Option<usize> {
    let head = around(place)?;
    let mut found = 0;
    let is_there = walk(head, place & !(PIECE_BYTES - 1), |own, copy| {
        found = own;
        copy.contains(&place)
    });
    is_there.then_some(found)
}

/// Whether a thread at `place`, a place in a piece, is between its calls.
pub fn is_ordered(place: usize) -> bool {
    around(place).is_some_and(|head| {
        let first = (place & !(PIECE_BYTES - 1)) + CODE + usize::from(head.before);
        (first..first + usize::from(head.between)).contains(&place)
    })
}

/// Where the instruction at `place` runs, if a jump has taken its bytes.
pub fn copy_of(place: usize) -> Option<usize> {
    if let Some((piece, _)) = before(place).filter(|(_, head)| head.covered && head.place == place) {
        return Some(piece + CODE);
    }
    // The piece whose room may reach up to here begins at or before it, or at most four instructions behind.
    let row = before(place).into_iter().chain(before(place + JUMP_BYTES));
    let takes = |head: &Head| {
        let start = head.place - usize::from(head.room[0]);
        head.room[1] != 0 && (start + 1..start + JUMP_BYTES).contains(&place)
    };
    let (piece, head) = row.into_iter().find(|(_, head)| takes(head))?;
    let mut found = 0;
    let is_there = walk(head, piece, |own, copy| {
        found = copy.start;
        own == place
    });
    is_there.then_some(found)
}

/// The address of what the instruction of the calling piece changes.
pub fn operand(saved: &Saved) -> usize {
    // SAFETY: the routines are called from nowhere but pieces.
    let head = unsafe { head(saved.back() & !(PIECE_BYTES - 1)) };
    head.operand.address(|number| saved.general(number))
}

/// That instruction, as it runs behind the call.
pub fn code(saved: &Saved) -> &'static [u8] {
    // SAFETY: as above.
    let length = unsafe { head(saved.back() & !(PIECE_BYTES - 1)) }.length;
    // SAFETY: it stands behind what ends the call, in the same piece, which stays as it is.
    unsafe { core::slice::from_raw_parts((saved.back() + CALL_ENDS.len()) as *const u8, usize::from(length)) }
}

/// Whether a thread waits by that instruction for another one, in a loop.
pub fn spins(saved: &Saved) -> bool {
    // SAFETY: as above.
    unsafe { head(saved.back() & !(PIECE_BYTES - 1)) }.spins
}

/// Where that instruction stands.
pub fn place(saved: &Saved) -> usize {
    // SAFETY: as above.
    unsafe { head(saved.back() & !(PIECE_BYTES - 1)) }.place
}

/// How many instructions were changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Into jumps.
    pub jumps: usize,
    /// Into traps.
    pub traps: usize,
    /// Into nothing: a debugger's breakpoint stands there.
    pub broken: usize,
}

/// Changes the instructions at `sites`, as [`super::settle`] left them, in the mapping at `at` of `code`. Where `traps` says
/// so none becomes a jump: a debugger may put breakpoints into the bytes that it takes.
///
/// # Safety
/// The range must be a private, executable mapping which shows the code, that no thread runs at this moment; calls come one
/// after the other.
pub unsafe fn change(at: usize, code: &[u8], sites: &[Site], traps: bool, handlers: [Handler; 2]) -> Changed {
    let mut changed = Changed::default();
    if sites.is_empty() {
        return changed;
    }
    SLOT.store(tls::distance::<{ tls::HELD }>(), Ordering::Relaxed);
    ENTER.0.store(handlers[0] as *mut (), Ordering::Release);
    LEAVE.0.store(handlers[1] as *mut (), Ordering::Release);
    let end = at + code.len();
    let bytes = (sites.len() * PIECE_BYTES).next_multiple_of(PAGE);
    let Some(pieces) = map_near(at, end, bytes) else { return changed };
    let mut next = pieces;
    // SAFETY: the caller's promise; the code is writable while it is changed, and the pieces lie where they were mapped.
    unsafe {
        if protect(at, end, true) != 0 {
            return changed;
        }
        for chain in sites.chunk_by(|_, next| next.covered) {
            let wants_jump = !traps && chain[0].room[1] != 0;
            let made = if wants_jump && write_chain(chain, at, code, next).is_some() {
                changed.jumps += chain.len();
                chain.len()
            } else {
                let mut made = 0;
                for trap in chain.iter().map(|site| site.as_trap()) {
                    let piece = next + made * PIECE_BYTES;
                    let is_changed = is_as_in_file(&trap, at, code) && write(&trap, None, at, code, piece).is_some();
                    changed.broken += usize::from(!is_changed && is_breakpoint(at + trap.place as usize));
                    made += usize::from(is_changed);
                }
                changed.traps += made;
                made
            };
            next += made * PIECE_BYTES;
        }
        protect(at, end, false);
        protect(pieces, pieces + bytes, false);
    }
    keep(&(at..end), &(pieces..next));
    changed
}

/// Whether nobody has changed anything there.
///
/// # Safety
/// As for [`change`].
unsafe fn is_as_in_file(site: &Site, at: usize, code: &[u8]) -> bool {
    let place = site.place as usize;
    let own = place - usize::from(site.room[0])..site.end();
    // SAFETY: mapped code that nobody changes meanwhile.
    let now = unsafe { core::slice::from_raw_parts((at + own.start) as *const u8, own.len()) };
    now == &code[own]
}

/// # Safety
/// As for [`change`].
unsafe fn is_breakpoint(address: usize) -> bool {
    const BREAKPOINT: u8 = 0xCC;
    // SAFETY: the caller's promise.
    unsafe { *(address as *const u8) == BREAKPOINT }
}

/// Writes the pieces of an instruction and of those in its room, and the jump. `None`, with no code changed, if that can't
/// be.
///
/// # Safety
/// As for [`write`].
unsafe fn write_chain(chain: &[Site], start: usize, code: &[u8], pieces: usize) -> Option<()> {
    for (index, site) in chain.iter().enumerate().rev() {
        let next = chain.get(index + 1).map(|next| next.place as usize);
        // SAFETY: the caller's promise; the jump, of the first, is written last.
        unsafe {
            is_as_in_file(site, start, code).then_some(())?;
            write(site, next, start, code, pieces + index * PIECE_BYTES)?;
        }
    }
    Some(())
}

/// Writes a piece and the jump to it, or the trap. Where it is covered nothing but the piece is written. `None`, with nothing
/// changed, if something is too far away. The piece leads on to the next one if there is another instruction at `next`.
///
/// # Safety
/// The site of the writable code at `start` and the piece must be the caller's to change.
unsafe fn write(site: &Site, next: Option<usize>, start: usize, code: &[u8], piece: usize) -> Option<()> {
    let place = site.place as usize;
    let [before, after] = site.room.map(usize::from);
    let behind = place + usize::from(site.length);
    let end = next.unwrap_or(site.end());
    let mut operand = Access::at(&code[place..])?.operand;
    if operand.relative {
        operand.distance += (start + behind) as i64;
    }
    let mut written = Code::at(piece + CODE, ROUTINES - CODE);
    written.moved(&code[place - before..place], start + place - before)?;
    let first = written.address();
    call(&mut written, relive_atomic_enter as *const () as usize, piece + ROUTINES)?;
    written.unchanged(&code[place..behind], start + place)?;
    call(&mut written, relive_atomic_leave as *const () as usize, piece + ROUTINES + 8)?;
    let between = written.address() - first;
    written.moved(&code[behind..end], start + behind)?;
    written.jump(if next.is_some() { piece + PIECE_BYTES + CODE } else { start + end })?;
    let mut count = 0;
    let head = Head {
        operand,
        place: start + place,
        room: if after == 0 { [0; 2] } else { [site.room[0], (end - place) as u8] },
        length: site.length,
        covered: site.covered,
        spins: site.spins,
        before: (first - piece - CODE) as u8,
        between: between as u8,
        short_jumps: short_jumps(&code[place - before..place], &mut count)?
            | short_jumps(&code[behind..end], &mut count)?,
    };
    let mut jump = Code::at(start + place - before, JUMP_BYTES);
    match after {
        _ if site.covered => {}
        0 => jump.put(&TRAP)?,
        _ => jump.jump(piece + CODE)?,
    }
    // SAFETY: the caller's promise.
    unsafe {
        (piece as *mut Head).write(head);
        ((piece + ROUTINES) as *mut [usize; 2])
            .write([relive_atomic_enter as *const () as usize, relive_atomic_leave as *const () as usize]);
        written.write();
        jump.write();
    }
    Some(())
}

/// `lea rsp, [rsp + 128]`, behind a call.
const CALL_ENDS: [u8; 8] = [0x48, 0x8D, 0xA4, 0x24, 0x80, 0, 0, 0];

/// A call of a routine, whose address stands at `word` as well, beyond the red zone.
fn call(written: &mut Code, routine: usize, word: usize) -> Option<()> {
    const _: () = assert!(RED_ZONE == 128);
    // lea rsp, [rsp - 128]; call …; lea rsp, [rsp + 128]
    written.put(&[0x48, 0x8D, 0x64, 0x24, 0x80])?;
    // As in other pieces, nothing is read where that can be.
    if reaches(written.address(), routine) {
        written.put(&[0xE8])?;
        written.distance_to(routine)?;
    } else {
        written.put(&[0xFF, 0x15])?;
        written.distance_to(word)?;
    }
    written.put(&CALL_ENDS)
}
