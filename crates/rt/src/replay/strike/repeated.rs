//! A stand point within a string instruction that the processor repeats.
//!
//! A signal may strike between two of its elements: then `rcx` tells how many were
//! left, and the addresses how far it had come. No replay passes there: a passage
//! begins with the first element. So the elements that were done are done here,
//! and the instruction goes on with the rest.

use core::arch::asm;
use relive_sys::signal::Context;
use relive_trace::stand::{FLAGS, RAX, RCX, RDI, RSI, Stand};

const DIRECTION: u64 = 1 << 10;

/// `rep movs` or `rep stos`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repeated {
    moves: bool,
    /// Bytes of an element.
    size: u64,
}

impl Repeated {
    /// The instruction that these bytes begin with, if it is one of them.
    pub(super) fn of(code: &[u8]) -> Option<Self> {
        let [0xF3, rest @ ..] = code else { return None };
        let (wide, rest) = match rest {
            [prefix @ 0x40..=0x4F, rest @ ..] => (prefix & 8 != 0, rest),
            _ => (false, rest),
        };
        let (moves, bytes) = match rest.first()? {
            0xA4 => (true, true),
            0xA5 => (true, false),
            0xAA => (false, true),
            0xAB => (false, false),
            _ => return None,
        };
        let words = if wide { 8 } else { 4 };
        Some(Self { moves, size: if bytes { 1 } else { words } })
    }

    /// Whether the instruction changes this register.
    pub(super) fn changes(self, index: usize) -> bool {
        index == RCX || index == RDI || self.moves && index == RSI
    }

    /// Does as many elements as the instruction at the context had done when it came to the stand point. Nothing if
    /// that is not the same run of the instruction.
    ///
    /// # Safety
    /// The context must be of a thread that is about to run the instruction.
    pub(super) unsafe fn catch_up(self, context: &mut Context, stand: &Stand<'_>) {
        let done = context.register(RCX).wrapping_sub(stand.register(RCX));
        let came = |index: usize| stand.register(index).wrapping_sub(context.register(index)) == done * self.size;
        let same = done <= context.register(RCX) && came(RDI) && (!self.moves || came(RSI));
        if done == 0 || !same || context.register(FLAGS) & DIRECTION != 0 {
            return;
        }
        let [to, from, value] = [RDI, RSI, RAX].map(|index| context.register(index));
        // SAFETY: what the instruction itself would do next, with the same operands.
        unsafe {
            match (self.moves, self.size) {
                (true, 1) => asm!("rep movsb", inout("rdi") to => _, inout("rsi") from => _, inout("rcx") done => _),
                (true, 4) => asm!("rep movsd", inout("rdi") to => _, inout("rsi") from => _, inout("rcx") done => _),
                (true, _) => asm!("rep movsq", inout("rdi") to => _, inout("rsi") from => _, inout("rcx") done => _),
                (false, 1) => asm!("rep stosb", inout("rdi") to => _, in("rax") value, inout("rcx") done => _),
                (false, 4) => asm!("rep stosd", inout("rdi") to => _, in("rax") value, inout("rcx") done => _),
                (false, _) => asm!("rep stosq", inout("rdi") to => _, in("rax") value, inout("rcx") done => _),
            }
        }
        for index in [RCX, RDI, RSI] {
            if self.changes(index) {
                context.set_register(index, stand.register(index));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Repeated;

    #[test]
    fn string_instructions_are_told_by_their_bytes() {
        let repeated = |moves, size| Some(Repeated { moves, size });
        assert_eq!(Repeated::of(&[0xF3, 0xA4]), repeated(true, 1));
        assert_eq!(Repeated::of(&[0xF3, 0xA5, 0x90]), repeated(true, 4));
        assert_eq!(Repeated::of(&[0xF3, 0x48, 0xA5]), repeated(true, 8));
        assert_eq!(Repeated::of(&[0xF3, 0xAA]), repeated(false, 1));
        assert_eq!(Repeated::of(&[0xF3, 0x48, 0xAB]), repeated(false, 8));
        for code in [&[0xF3, 0xA6][..], &[0xF3, 0x48, 0xAF], &[0xF2, 0xA4], &[0xA4], &[0xF3], &[0xF3, 0x0F, 0x1E]] {
            assert_eq!(Repeated::of(code), None);
        }
    }
}
