//! The runtime's thread-local slot: initial-exec, reached in one instruction.
//!
//! `__tls_get_addr` would cost more than a recorded event, and may allocate from
//! the program's heap. The library is always preloaded, so a static TLS slot is
//! always there. Zero is the state of a thread that the runtime has not met.

use core::arch::{asm, global_asm};

global_asm!(
    ".section .tbss,\"awT\",@nobits",
    ".globl relive_tls_slot",
    ".hidden relive_tls_slot",
    ".type relive_tls_slot,@object",
    ".size relive_tls_slot,64",
    ".balign 64",
    "relive_tls_slot:",
    ".zero 64",
    ".previous",
);

/// A word of the slot.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub enum Word {
    /// The live chunk header while the thread records, else 0.
    Header = 0,
    /// The runtime's thread block, or 0.
    Thread = 8,
    /// Non-zero if the next event has more to do than the fast path does.
    Attention = 16,
    /// The innermost watched trampoline frame, or 0.
    Frames = 24,
    /// The lock of the instruction that the thread is in, or 0; see [`crate::atomics::Held`].
    Held = 32,
    /// The upper end of the thread's stack aside, or 0 if it has none; see [`crate::aside`].
    Top = 40,
    /// Where the thread left the program's stack, or 0 if it is not aside.
    Outer = 48,
    /// The thread's part of the heap while what it has at hand may be given out and taken back at once, else 0.
    AtHand = 56,
}

/// Reads a word of the calling thread's slot.
#[inline(always)]
pub fn get<const WORD: usize>() -> usize {
    let value: usize;
    // SAFETY: the GOT entry holds the slot's offset from fs, valid in every thread with a thread pointer.
    unsafe {
        asm!("mov {v}, qword ptr [rip + relive_tls_slot@gottpoff]", "mov {v}, qword ptr fs:[{v} + {w}]",
            v = out(reg) value, w = const WORD, options(nostack, readonly, preserves_flags));
    }
    value
}

/// Writes a word of the calling thread's slot.
#[inline(always)]
pub fn set<const WORD: usize>(value: usize) {
    // SAFETY: as in `get`; nobody holds a reference to the slot.
    unsafe {
        asm!("mov {t}, qword ptr [rip + relive_tls_slot@gottpoff]", "mov qword ptr fs:[{t} + {w}], {v}",
            t = out(reg) _, v = in(reg) value, w = const WORD, options(nostack, preserves_flags));
    }
}

/// How far from the thread pointer a word of the slot is, in each thread.
pub fn distance<const WORD: usize>() -> isize {
    let value: isize;
    // SAFETY: as in `get`.
    unsafe {
        asm!("mov {v}, qword ptr [rip + relive_tls_slot@gottpoff]", v = out(reg) value,
            options(nostack, readonly, preserves_flags));
    }
    value + WORD as isize
}

/// The calling thread's `pthread_t`: the thread pointer itself, which the x86-64 ABI keeps at `fs:0`.
#[inline(always)]
pub fn thread_pointer() -> usize {
    let value: usize;
    // SAFETY: every thread that runs C code has a thread control block.
    unsafe { asm!("mov {v}, qword ptr fs:[0]", v = out(reg) value, options(nostack, readonly, preserves_flags)) };
    value
}

/// [`Word::Header`] as a const argument.
pub const HEADER: usize = Word::Header as usize;
/// [`Word::Thread`] as a const argument.
pub const THREAD: usize = Word::Thread as usize;
/// [`Word::Attention`] as a const argument.
pub const ATTENTION: usize = Word::Attention as usize;
/// [`Word::Frames`] as a const argument.
pub const FRAMES: usize = Word::Frames as usize;

/// [`Word::Held`] as a const argument.
pub const HELD: usize = Word::Held as usize;
/// [`Word::Top`] as a const argument.
pub const TOP: usize = Word::Top as usize;
/// [`Word::Outer`] as a const argument.
pub const OUTER: usize = Word::Outer as usize;
/// [`Word::AtHand`] as a const argument.
pub const AT_HAND: usize = Word::AtHand as usize;

#[cfg(test)]
mod tests {
    use super::{HEADER, THREAD, get, set};

    #[test]
    fn each_thread_has_its_own_words() {
        set::<HEADER>(11);
        set::<THREAD>(12);
        std::thread::spawn(|| {
            assert_eq!(get::<HEADER>(), 0);
            set::<HEADER>(99);
        })
        .join()
        .unwrap();
        assert_eq!((get::<HEADER>(), get::<THREAD>()), (11, 12));
        set::<HEADER>(0);
        set::<THREAD>(0);
    }
}
