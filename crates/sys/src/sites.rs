//! System call instructions that are made into jumps: a jump costs a hundredth
//! of what a trap costs.
//!
//! The instruction has two bytes, a jump has five. But a C library compares the
//! result of nearly each call with the smallest error, in an instruction right
//! behind it that depends on nothing else:
//!
//! ```text
//! 0f 05                syscall          e9 xx xx xx xx   jmp  to the site's own piece
//! 48 3d 00 f0 ff ff    cmp rax, -4096   …                (never run)
//! ```
//!
//! The piece, near enough for such a jump, puts the address behind the comparison
//! into rcx, which a system call overwrites anyway, and goes to one routine for
//! all. That one keeps all registers but rax, rcx and r11, makes the comparison
//! and goes on behind it. To an unwinder it looks like a function that was called
//! from the site. Where a `ret` and padding stand behind the instruction, the
//! piece has a `ret` of its own to go on at. All other sites, and those where
//! something may jump into the five bytes, are left to the trap.

pub(crate) mod entered;
mod find;

use crate::start::PIECES;
use crate::syscall::{number, syscall6};

use core::arch::global_asm;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
pub use find::{Asked, Site, Sites};

/// `syscall`.
const CALL: [u8; 2] = [0x0F, 0x05];
/// What may stand behind it, and the routine that makes up for it.
const BEHIND: [(&[u8], unsafe extern "C" fn()); 3] = [
    (&[0x48, 0x3D, 0x00, 0xF0, 0xFF, 0xFF], relive_site_4096),
    (&[0x48, 0x3D, 0x01, 0xF0, 0xFF, 0xFF], relive_site_4095),
    (&[0x3D, 0x00, 0xF0, 0xFF, 0xFF], relive_site_4096_short),
];
const JUMP_BYTES: usize = 5;
const RET: u8 = 0xC3;
/// The form of a site with a `ret` and padding behind it.
const RETURNS: usize = BEHIND.len();
/// Where a piece has its `ret`, and its site's address.
const PIECE_RET: usize = 21;
const PIECE_SITE: usize = 24;
/// `lea rcx, [rip + …]; jmp routine; …; ret; site`; where the routine is too far away, `jmp [rip + 0]; address`.
const PIECE_BYTES: usize = 32;
const PAGE: usize = 4096;

/// The call's arguments, from where the routine laid them.
macro_rules! arguments {
    () => {
        "mov rdi, [rsp]\nmov rsi, [rsp + 8]\nmov rdx, [rsp + 16]\n\
         mov r10, [rsp + 24]\nmov r8, [rsp + 32]\nmov r9, [rsp + 40]\n"
    };
}

macro_rules! routine {
    ($name:literal, $compare:literal) => {
        concat!(
            $crate::saved::begins!($name),
            ".cfi_def_cfa rsp, 0\n",
            ".cfi_register rip, rcx\n",
            // The program's red zone.
            "lea rsp, [rsp - 128]\n",
            ".cfi_def_cfa_offset 128\n",
            "push rcx\n",
            ".cfi_def_cfa_offset 136\n",
            ".cfi_offset rip, -136\n",
            "push rbp\n",
            ".cfi_def_cfa_offset 144\n",
            ".cfi_offset rbp, -144\n",
            "mov rbp, rsp\n",
            ".cfi_def_cfa_register rbp\n",
            "and rsp, -16\n",
            "sub rsp, 320\n",
            "mov [rsp], rdi\n",
            "mov [rsp + 8], rsi\n",
            "mov [rsp + 16], rdx\n",
            "mov [rsp + 24], r10\n",
            "mov [rsp + 32], r8\n",
            "mov [rsp + 40], r9\n",
            "movaps [rsp + 48], xmm0\n",
            "movaps [rsp + 64], xmm1\n",
            "movaps [rsp + 80], xmm2\n",
            "movaps [rsp + 96], xmm3\n",
            "movaps [rsp + 112], xmm4\n",
            "movaps [rsp + 128], xmm5\n",
            "movaps [rsp + 144], xmm6\n",
            "movaps [rsp + 160], xmm7\n",
            "movaps [rsp + 176], xmm8\n",
            "movaps [rsp + 192], xmm9\n",
            "movaps [rsp + 208], xmm10\n",
            "movaps [rsp + 224], xmm11\n",
            "movaps [rsp + 240], xmm12\n",
            "movaps [rsp + 256], xmm13\n",
            "movaps [rsp + 272], xmm14\n",
            "movaps [rsp + 288], xmm15\n",
            "mov [rsp + 304], rax\n",
            "mov rdi, rax\n",
            "mov rsi, rsp\n",
            "lea rdx, [rbp + 8]\n",
            "cld\n",
            "call qword ptr [rip + {handler}]\n",
            "test rdx, rdx\n",
            "jz 2f\n",
            // The call is made here: behind it nothing returns that was called before it, and the processor, which has
            // forgotten where to by then, waits for no such return.
            "mov [rsp + 312], rdx\n",
            "mov rax, [rsp + 304]\n",
            arguments!(),
            ".globl ",
            $name,
            "_call\n.hidden ",
            $name,
            "_call\n",
            $name,
            "_call:\n",
            "syscall\n",
            "mov rdi, [rsp + 304]\n",
            "mov rsi, rsp\n",
            "mov rdx, rax\n",
            "call qword ptr [rsp + 312]\n",
            "2:\n",
            // Who was called from here, and for what, differs in a replay.
            "pxor xmm0, xmm0\n",
            "movups [rsp - 16], xmm0\n",
            "movups [rsp - 32], xmm0\n",
            "movups [rsp - 48], xmm0\n",
            "movups [rsp - 64], xmm0\n",
            "movups [rsp - 80], xmm0\n",
            "movups [rsp - 96], xmm0\n",
            "mov qword ptr [rsp + 312], 0\n",
            "xor r11d, r11d\n",
            "movaps xmm0, [rsp + 48]\n",
            "movaps xmm1, [rsp + 64]\n",
            "movaps xmm2, [rsp + 80]\n",
            "movaps xmm3, [rsp + 96]\n",
            "movaps xmm4, [rsp + 112]\n",
            "movaps xmm5, [rsp + 128]\n",
            "movaps xmm6, [rsp + 144]\n",
            "movaps xmm7, [rsp + 160]\n",
            "movaps xmm8, [rsp + 176]\n",
            "movaps xmm9, [rsp + 192]\n",
            "movaps xmm10, [rsp + 208]\n",
            "movaps xmm11, [rsp + 224]\n",
            "movaps xmm12, [rsp + 240]\n",
            "movaps xmm13, [rsp + 256]\n",
            "movaps xmm14, [rsp + 272]\n",
            "movaps xmm15, [rsp + 288]\n",
            arguments!(),
            "mov rsp, rbp\n",
            "pop rbp\n",
            ".cfi_def_cfa rsp, 136\n",
            ".cfi_restore rbp\n",
            $compare,
            "\n",
            // No `ret`: no `call` came from there, and the processor would look for it, and for all that return later, in
            // the wrong places. A system call, too, leaves in rcx where it goes on.
            "pop rcx\n",
            ".cfi_def_cfa_offset 128\n",
            ".cfi_register rip, rcx\n",
            "lea rsp, [rsp + 128]\n",
            ".cfi_def_cfa_offset 0\n",
            "jmp rcx\n",
            ".cfi_endproc\n",
            ".size ",
            $name,
            ", . - ",
            $name,
            "\n",
        )
    };
}

global_asm!(
    routine!("relive_site_4096", "cmp rax, -4096"),
    routine!("relive_site_4095", "cmp rax, -4095"),
    routine!("relive_site_4096_short", "cmp eax, -4096"),
    handler = sym HANDLER,
);

unsafe extern "C" {
    fn relive_site_4096();
    fn relive_site_4095();
    fn relive_site_4096_short();
    static relive_site_4096_call: [u8; CALL.len()];
    static relive_site_4095_call: [u8; CALL.len()];
    static relive_site_4096_short_call: [u8; CALL.len()];
}

/// What carries out a call, or says that it is to be made: its number, its arguments, and for [`caller`] where the code
/// goes on.
pub type Handler = unsafe extern "C" fn(number: usize, arguments: *const [usize; 6], back: *const usize) -> Answer;

/// What is told the kernel's result of a call that was made, and returns the program's.
pub type Made = unsafe extern "C" fn(number: usize, arguments: *const [usize; 6], result: isize) -> isize;

/// A [`Handler`]'s word on a call. Its two fields are what the routine finds in rax and rdx.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Answer {
    result: isize,
    made: Option<Made>,
}

impl Answer {
    /// The call is done, and returned this.
    pub const fn done(result: isize) -> Self {
        Self { result, made: None }
    }

    /// The kernel is to be asked, and `made` then told.
    pub const fn make(made: Made) -> Self {
        Self { result: 0, made: Some(made) }
    }
}

/// Whether a thread at `place` is in, or just behind, a call that a [`Handler`] left to be made.
pub fn is_call(place: usize) -> bool {
    let calls =
        [&raw const relive_site_4096_call, &raw const relive_site_4095_call, &raw const relive_site_4096_short_call];
    calls.iter().any(|call| place == call.addr() || place == call.addr() + CALL.len())
}

/// An address in the code that made a call: behind the site, or of the site itself.
///
/// # Safety
/// `back` must be what a [`Handler`] is given, while that runs.
pub unsafe fn caller(back: *const usize) -> usize {
    // SAFETY: the routine's frame; a site whose piece goes on by itself has its address there.
    unsafe {
        let place = back.read();
        if is_piece(place) { ((place - PIECE_RET + PIECE_SITE) as *const usize).read() } else { place }
    }
}

#[repr(transparent)]
struct Target(AtomicPtr<()>);

static HANDLER: Target = Target(AtomicPtr::new(core::ptr::null_mut()));

/// Makes the sites that `find` finds in the code at `start..end` go to `handler`. Returns how many there are; 0 too if the
/// code can't be changed.
///
/// # Safety
/// The range must be mapped code that no other thread runs at this moment.
pub unsafe fn redirect(start: usize, end: usize, handler: Handler, find: impl FnOnce(&[u8]) -> Sites) -> usize {
    // SAFETY: mapped code, the caller's promise.
    let sites = find(unsafe { core::slice::from_raw_parts(start as *const u8, end - start) });
    let count = sites.as_slice().len();
    if count == 0 {
        return 0;
    }
    HANDLER.0.store(handler as *mut (), Ordering::Release);
    let bytes = (count * PIECE_BYTES).next_multiple_of(PAGE);
    let Some(pieces) = map_near(start, end, bytes) else { return 0 };
    // SAFETY: the caller's promise; the code is writable while it is changed, and the pieces lie where they were mapped.
    unsafe {
        if protect(start, end, true) != 0 {
            return 0;
        }
        for (index, site) in sites.as_slice().iter().enumerate() {
            let piece = pieces + index * PIECE_BYTES;
            let (back, routine) = match BEHIND.get(site.form) {
                Some(&(_, routine)) => (start + site.back(), routine as usize),
                None => (piece + PIECE_RET, BEHIND[0].1 as usize),
            };
            write_piece(piece, back, routine, start + site.at);
            let mut jump = [0xE9, 0, 0, 0, 0];
            jump[1..].copy_from_slice(&distance(start + site.at + JUMP_BYTES, piece).to_le_bytes());
            core::ptr::copy_nonoverlapping(jump.as_ptr(), (start + site.at) as *mut u8, JUMP_BYTES);
        }
        protect(start, end, false);
        protect(pieces, pieces + bytes, false);
    }
    count
}

/// Makes each function of `functions` go to the other one instead, whoever calls it. `false` if their code can't be
/// changed.
///
/// # Safety
/// The functions must be longer than the jump, of the same kind as what takes their place, and lie in one mapping of
/// code; no other thread may run anything there at this moment, and nothing may jump into their first bytes.
pub unsafe fn divert(functions: &[(usize, usize)]) -> bool {
    /// `jmp [rip + 0]; address`
    const FAR_JUMP_BYTES: usize = 14;
    let places = || functions.iter().map(|&(function, _)| function);
    let (Some(start), Some(last)) = (places().min(), places().max()) else { return true };
    // SAFETY: the caller's promise; the code is writable while it is changed.
    unsafe {
        let end = last + FAR_JUMP_BYTES;
        if protect(start, end, true) != 0 {
            return false;
        }
        for &(function, target) in functions {
            let mut jump = [0xFF, 0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            jump[6..].copy_from_slice(&target.to_le_bytes());
            core::ptr::copy_nonoverlapping(jump.as_ptr(), function as *mut u8, FAR_JUMP_BYTES);
        }
        protect(start, end, false);
    }
    true
}

fn distance(from: usize, to: usize) -> i32 {
    (to as isize - from as isize) as i32
}

/// Whether an instruction at `from` can name `to` by its distance.
pub(crate) fn reaches(from: usize, to: usize) -> bool {
    const FAR: usize = (1 << 31) - 64;
    from.abs_diff(to) < FAR
}

unsafe fn write_piece(at: usize, back: usize, routine: usize, site: usize) {
    const LEA_BYTES: usize = 7;
    let mut piece = [0xCC; PIECE_BYTES];
    piece[..3].copy_from_slice(&[0x48, 0x8D, 0x0D]);
    piece[3..7].copy_from_slice(&distance(at + LEA_BYTES, back).to_le_bytes());
    let jump = at + LEA_BYTES;
    // What a piece reads is an access of the program's to whoever looks for races.
    if reaches(jump, routine) {
        piece[7] = 0xE9;
        piece[8..12].copy_from_slice(&distance(jump + JUMP_BYTES, routine).to_le_bytes());
    } else {
        piece[7..13].copy_from_slice(&[0xFF, 0x25, 0, 0, 0, 0]);
        piece[13..21].copy_from_slice(&routine.to_le_bytes());
    }
    piece[PIECE_RET] = RET;
    piece[PIECE_SITE..].copy_from_slice(&site.to_le_bytes());
    // SAFETY: the caller's promise: a piece of writable memory.
    unsafe { core::ptr::copy_nonoverlapping(piece.as_ptr(), at as *mut u8, PIECE_BYTES) };
}

/// Where pieces lie that are not in [`PIECES`]: first and last address; 0 if there are no more.
static ELSEWHERE: [[AtomicUsize; 2]; 64] = [const { [const { AtomicUsize::new(0) }; 2] }; 64];

/// Whether a thread at `place` is in a piece: it is about to do what it jumped there for, or has just done it.
pub fn is_piece(place: usize) -> bool {
    let holds =
        |[start, end]: &[AtomicUsize; 2]| (start.load(Ordering::Relaxed)..end.load(Ordering::Relaxed)).contains(&place);
    PIECES.contains(&place) || ELSEWHERE.iter().take_while(|[start, _]| start.load(Ordering::Relaxed) != 0).any(holds)
}

/// Memory that jumps from the code reach: a part of what is kept for that, or at the first free place below it.
pub(crate) fn map_near(start: usize, end: usize, bytes: usize) -> Option<usize> {
    const STEP: usize = 64 * 1024;
    const REACH: usize = 1 << 30;
    static NEXT: AtomicUsize = AtomicUsize::new(PIECES.start);
    if PIECES.start >= end && PIECES.end - start < 2 * REACH {
        let at = NEXT.fetch_add(bytes, Ordering::Relaxed);
        if at + bytes <= PIECES.end && map_at(at, bytes) {
            return Some(at);
        }
    }
    let first = (start & !(STEP - 1)).checked_sub(bytes.next_multiple_of(STEP))?;
    let below = (0..REACH / STEP).map_while(|i| first.checked_sub(i * STEP));
    let found = below.take_while(|&at| end - at < REACH).find(|&at| map_at(at, bytes))?;
    if let Some([start, end]) = ELSEWHERE.iter().find(|[start, _]| start.load(Ordering::Relaxed) == 0) {
        end.store(found + bytes, Ordering::Relaxed);
        start.store(found, Ordering::Relaxed);
    }
    Some(found)
}

fn map_at(at: usize, bytes: usize) -> bool {
    const READ_WRITE: usize = 3;
    const FLAGS: usize = 2 | 0x20 | 0x10_0000;
    // SAFETY: a new mapping at a free address, or none.
    let found = unsafe { syscall6(number::MMAP, at, bytes, READ_WRITE, FLAGS, usize::MAX, 0) };
    if found > 0 && found as usize != at {
        // SAFETY: a kernel that takes the address for a hint put it elsewhere; nobody uses it.
        unsafe { crate::syscall::munmap(found as usize, bytes) };
    }
    found == at as isize
}

pub(crate) unsafe fn protect(start: usize, end: usize, writable: bool) -> isize {
    const READ_EXEC: usize = 5;
    const ALL: usize = 7;
    let start = start & !(PAGE - 1);
    // SAFETY: the caller's promise.
    unsafe { syscall6(number::MPROTECT, start, end - start, if writable { ALL } else { READ_EXEC }, 0, 0, 0) }
}

#[cfg(test)]
mod tests {
    use super::find::Sites;
    use super::find::tests::unsure;
    use super::{Answer, PIECE_BYTES, caller, is_call, redirect, write_piece};
    use crate::syscall::number::GETPID;
    use std::cell::Cell;

    thread_local! {
        /// Where the last call was made.
        static MADE_AT: Cell<usize> = const { Cell::new(0) };
    }

    unsafe extern "C" fn negative(number: usize, arguments: *const [usize; 6], result: isize) -> isize {
        // SAFETY: the routine passes the address of six words.
        let first = unsafe { (*arguments)[0] };
        assert_eq!((number, first), (GETPID, 77));
        -result
    }

    unsafe extern "C" fn sum(number: usize, arguments: *const [usize; 6], back: *const usize) -> Answer {
        // SAFETY: what the routine passes.
        MADE_AT.set(unsafe { caller(back) });
        // SAFETY: the routine passes the address of six words.
        let arguments = unsafe { *arguments };
        let total: usize = arguments[..3].iter().sum();
        match number {
            1 => Answer::done(-7),
            GETPID => Answer::make(negative),
            _ => Answer::done((number * 1000 + total) as isize),
        }
    }

    /// A function of this machine code, with its one site redirected.
    fn redirected(code: &[u8]) -> extern "C" fn(u32, usize, usize) -> usize {
        let page = crate::syscall::mmap(4096, crate::syscall::MAP_PRIVATE_ANONYMOUS, -1, 0) as usize;
        // SAFETY: a fresh page of our own, larger than the code; nobody runs it yet.
        unsafe {
            core::ptr::copy_nonoverlapping(code.as_ptr(), page as *mut u8, code.len());
            assert_eq!(redirect(page, page + 4096, sum, |code| Sites::find(code, unsure)), 1);
            core::mem::transmute(page)
        }
    }

    /// A piece's bytes from behind the `lea` on, and where it stands.
    fn piece(at: &mut [u8; PIECE_BYTES], routine: usize) -> ([u8; 6], usize) {
        let address = at.as_ptr().addr();
        // SAFETY: a piece's bytes.
        unsafe { write_piece(address, address, routine, address) };
        (at[7..13].try_into().unwrap(), address)
    }

    #[test]
    fn a_piece_reads_nothing_where_it_need_not() {
        let mut bytes = [0; PIECE_BYTES];
        let near = bytes.as_ptr().addr() + (1 << 30);
        let ([jump, distance @ .., _], address) = piece(&mut bytes, near);
        assert_eq!((jump, address + 12 + i32::from_le_bytes(distance) as usize), (0xE9, near));
        assert_eq!(piece(&mut bytes, near - (4 << 30)).0, [0xFF, 0x25, 0, 0, 0, 0]);
    }

    #[test]
    fn a_redirected_site_that_returns_does_so() {
        // `mov eax, edi; mov rdi, rsi; syscall; ret; nop dword [rax]`
        const CODE: [u8; 11] = [0x89, 0xF8, 0x48, 0x89, 0xF7, 0x0F, 0x05, 0xC3, 0x0F, 0x1F, 0x00];
        let call = redirected(&CODE);
        assert_eq!(call(9, 500, 3), 10003);
        assert_eq!(call(1, 77, 0) as isize, -7);
        assert_eq!(call(GETPID as u32, 77, 0) as i32, -(std::process::id() as i32), "made by the routine");
        assert!(!is_call(call as usize));
        assert_eq!(MADE_AT.get(), call as usize + 5, "the site, not where its function returns to");
    }

    #[test]
    fn a_redirected_site_calls_the_handler_and_goes_on_behind_the_comparison() {
        // `mov eax, edi; mov rdi, rsi; syscall; cmp rax, -4096; ja 1f; ret; 1: mov rax, rsi; ret`
        const CODE: [u8; 21] = [
            0x89, 0xF8, 0x48, 0x89, 0xF7, 0x0F, 0x05, 0x48, 0x3D, 0x00, 0xF0, 0xFF, 0xFF, 0x77, 0x01, 0xC3, 0x48, 0x89,
            0xF0, 0xC3, 0x90,
        ];
        let call = redirected(&CODE);
        assert_eq!(call(9, 500, 3), 10003);
        assert_eq!(call(1, 77, 0), 77, "an error is seen by the comparison");
        assert_eq!(MADE_AT.get(), call as usize + 13, "behind the comparison");
    }
}
