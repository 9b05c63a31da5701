//! What one thread has for itself while it runs translated code: its area, at the
//! address that gs holds.
//!
//! Translated code may use neither the program's stack (the red zone, and stacks
//! with a few bytes left) nor a register of the program, nor fs, which is libc's.
//! gs is free in programs for x86-64 Linux, and one prefix byte reaches it. What
//! does use gs is refused by name. The area is at the beginning of what gs points
//! to; a tool may have more of its own behind it.
//!
//! Its parts: words that the emitted code spills registers to; the program's
//! registers while our own functions run, which have a stack of their own; words for
//! the tool.

use crate::assembler::Operand;
use core::mem::offset_of;

/// Words for a tool.
pub const TOOL_WORDS: usize = 72;
/// Registers of the program that can be elsewhere at a time, for the sake of inserted code.
pub(crate) const SPILLS: usize = 4;
/// Registers that a tool's routine can have.
pub(crate) const KEPT: usize = 6;
/// Vector state as `xsave` lays it out, up to the sixteen upper registers of AVX-512.
const VECTOR_BYTES: usize = 4096;
/// Bytes of the stack on which translating and hooks run.
pub const STACK_BYTES: usize = 128 * 1024;
/// Memory of one thread, aligned to 64, zeroed.
pub const AREA_BYTES: usize = size_of::<Area>() + STACK_BYTES;

/// The program's registers between two of its instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Context {
    /// General registers by the processor's number: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15.
    pub general: [u64; 16],
    /// The flags register.
    pub flags: u64,
    /// The next instruction, as an address of the program.
    pub ip: u64,
}

#[repr(C, align(64))]
pub(crate) struct Area {
    pub(crate) itself: *mut Area,
    /// Saves the program's state and calls `serve`.
    pub(crate) leave: usize,
    /// The same for a call of ours, behind which nobody needs vector registers.
    pub(crate) leave_plainly: usize,
    pub(crate) stack: usize,
    /// What runs on our stack when translated code needs us.
    pub(crate) serve: usize,
    pub(crate) engine: *const (),
    /// Where to go on: an address of the cache, or a native one.
    pub(crate) target: u64,
    /// Why the cache was left: the number of an exit.
    pub(crate) exit: u32,
    /// Which parts of the vector state are saved.
    pub(crate) vector_mask: u32,
    /// Flags, as `lahf; seto al` leaves them, and rax meanwhile.
    pub(crate) flags: u64,
    pub(crate) flags_rax: u64,
    pub(crate) spills: [u64; SPILLS],
    /// rcx, r10 and r11 while an indirect branch is looked up.
    pub(crate) lookup: [u64; 3],
    /// Where a tool's routine goes back to in its block.
    pub(crate) back: u64,
    /// Registers of the block while a routine has them.
    pub(crate) kept: [u64; KEPT],
    pub(crate) context: Context,
    /// Where to go on behind a system call that is made for the program.
    pub(crate) after: u64,
    /// Not zero: all signals are blocked, and are to be as in `mask` before the program goes on.
    pub(crate) blocked: u64,
    pub(crate) mask: u64,
    /// What decides over a signal that arrived, and what takes it to the program's handler.
    pub(crate) arrived: usize,
    pub(crate) take_signal: usize,
    /// What ends the process by a signal that the program does not handle.
    pub(crate) die: usize,
    /// Where native code goes in place of its `ret` to be translated from there on.
    pub(crate) resume: u64,
    /// The next of all areas.
    pub(crate) next: *mut Area,
    /// The kernel's id of the thread.
    pub(crate) tid: u32,
    /// Whether the thread is at its end: the area is free once the kernel knows no such thread.
    pub(crate) ending: u32,
    /// Whether the kernel hands the thread's system calls back (Syscall User Dispatch).
    pub(crate) dispatched: bool,
    pub(crate) tool: [u64; TOOL_WORDS],
    pub(crate) vectors: Vectors,
}

#[repr(C, align(64))]
pub(crate) struct Vectors(pub(crate) [u8; VECTOR_BYTES]);

pub(crate) const LEAVE: usize = offset_of!(Area, leave);
pub(crate) const LEAVE_PLAINLY: usize = offset_of!(Area, leave_plainly);
pub(crate) const STACK: usize = offset_of!(Area, stack);
pub(crate) const SERVE: usize = offset_of!(Area, serve);
pub(crate) const TARGET: usize = offset_of!(Area, target);
pub(crate) const EXIT: usize = offset_of!(Area, exit);
pub(crate) const VECTOR_MASK: usize = offset_of!(Area, vector_mask);
pub(crate) const FLAGS: usize = offset_of!(Area, flags);
pub(crate) const FLAGS_RAX: usize = offset_of!(Area, flags_rax);
pub(crate) const SPILL: usize = offset_of!(Area, spills);
pub(crate) const LOOKUP_RCX: usize = offset_of!(Area, lookup);
pub(crate) const LOOKUP_R10: usize = LOOKUP_RCX + 8;
pub(crate) const LOOKUP_R11: usize = LOOKUP_RCX + 16;
pub(crate) const BACK: usize = offset_of!(Area, back);
pub(crate) const KEEP: usize = offset_of!(Area, kept);
pub(crate) const AFTER: usize = offset_of!(Area, after);
pub(crate) const BLOCKED: usize = offset_of!(Area, blocked);
pub(crate) const MASK: usize = offset_of!(Area, mask);
pub(crate) const ARRIVED: usize = offset_of!(Area, arrived);
pub(crate) const TAKE_SIGNAL: usize = offset_of!(Area, take_signal);
pub(crate) const DIE: usize = offset_of!(Area, die);
pub(crate) const RESUME: usize = offset_of!(Area, resume);
pub(crate) const TID: usize = offset_of!(Area, tid);
pub(crate) const ENDING: usize = offset_of!(Area, ending);
pub(crate) const CONTEXT: usize = offset_of!(Area, context);
pub(crate) const VECTORS: usize = offset_of!(Area, vectors);

/// The operand of the tool's word `index`.
///
/// # Panics
/// If there is no such word.
pub const fn tool_word(index: usize) -> Operand {
    assert!(index < TOOL_WORDS, "a tool has 72 words");
    Operand::area(offset_of!(Area, tool) + index * 8)
}

/// Where the tool's word `index` is in the area.
///
/// # Panics
/// If there is no such word.
pub const fn tool_offset(index: usize) -> i32 {
    assert!(index < TOOL_WORDS, "a tool has 72 words");
    (WORDS + index * 8) as i32
}

/// Where tool words begin, for whoever has the area's address.
pub(crate) const WORDS: usize = offset_of!(Area, tool);

#[cfg(test)]
mod tests {
    use super::{AREA_BYTES, Area, VECTORS};

    #[test]
    fn the_vector_state_is_aligned_as_xsave_wants_it() {
        assert!(VECTORS.is_multiple_of(64) && AREA_BYTES.is_multiple_of(64));
        assert_eq!(align_of::<Area>(), 64);
    }
}
