//! Where the program's registers are at each place of the translated code.
//!
//! Translated code borrows registers, so that what a signal finds in them is not
//! what the program has. While a block is written, each change of that is noted as a
//! [`Mark`]: from this byte on, such registers are in such words of the thread's
//! area. [`Mark::restore`] turns the raw registers into the program's, between two of
//! its instructions. A branch that has begun is taken back, or was done: nothing in
//! between can be seen.

use crate::area::{Area, Context, SPILLS};
use crate::register::Gpr;

/// No register is in a spill word.
const NOBODY: u8 = 0xFF;
/// The six arithmetic flags in the flags register.
const ARITHMETIC: u64 = 0x8D5;
const OVERFLOW: u64 = 0x800;

/// Which of the program's values are elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// Whose value a spill word has.
    spilled: [u8; SPILLS],
    /// rcx, r10, r11 in the words of the lookup, as bits 0, 1 and 2.
    pub(crate) lookup: u8,
    /// The arithmetic flags are in the area.
    pub(crate) flags: bool,
    /// rax is in the area because the flags went through it.
    pub(crate) flags_rax: bool,
    /// The instruction is done and its exit is `ip`'s number in the block.
    pub(crate) exit: bool,
    /// What to add to rsp.
    pub(crate) stack: i32,
}

/// rcx is in the area.
pub(crate) const RCX: u8 = 1;
/// r10 is in the area.
pub(crate) const R10: u8 = 2;
/// r11 is in the area.
pub(crate) const R11: u8 = 4;

impl State {
    /// Everything is where the program has it.
    pub(crate) const EXACT: Self =
        Self { spilled: [NOBODY; SPILLS], lookup: 0, flags: false, flags_rax: false, exit: false, stack: 0 };

    pub(crate) fn set_spilled(&mut self, word: usize, register: Option<Gpr>) {
        self.spilled[word] = register.map_or(NOBODY, Gpr::number);
    }

    /// A spill word that nobody uses.
    pub(crate) fn free_word(&self) -> Option<usize> {
        self.spilled.iter().position(|&register| register == NOBODY)
    }

    /// The spill words that are used, and whose values they have.
    pub(crate) fn spilled(&self) -> impl DoubleEndedIterator<Item = (usize, Gpr)> + use<> {
        let spilled = self.spilled;
        (0..SPILLS).filter(move |&word| spilled[word] != NOBODY).map(move |word| (word, Gpr::numbered(spilled[word])))
    }

    /// Makes `context`, as the processor has it, what the program has.
    pub(crate) fn restore(&self, context: &mut Context, area: &Area) {
        let general = &mut context.general;
        if self.flags {
            context.flags = context.flags & !ARITHMETIC | kept_flags(area.flags);
        }
        if self.flags_rax {
            general[usize::from(Gpr::RAX.number())] = area.flags_rax;
        }
        for (word, register) in self.spilled() {
            general[usize::from(register.number())] = area.spills[word];
        }
        for (bit, register) in [Gpr::RCX, Gpr::R10, Gpr::R11].into_iter().enumerate() {
            if self.lookup >> bit & 1 != 0 {
                general[usize::from(register.number())] = area.lookup[bit];
            }
        }
        let stack = &mut general[usize::from(Gpr::RSP.number())];
        *stack = stack.wrapping_add_signed(i64::from(self.stack));
    }
}

/// The arithmetic flags out of what `lahf; seto al` left in rax.
fn kept_flags(rax: u64) -> u64 {
    rax >> 8 & ARITHMETIC & !OVERFLOW | if rax & 1 != 0 { OVERFLOW } else { 0 }
}

/// From `offset` in the block's code on, the program is before the instruction at `ip`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    /// Bytes from the beginning of the block's code.
    pub(crate) offset: u16,
    /// Bytes from the beginning of the block in the program, or the number of an exit.
    pub(crate) ip: u16,
    pub(crate) state: State,
}

#[cfg(test)]
mod tests {
    use super::{ARITHMETIC, kept_flags};

    #[test]
    fn flags_come_back_from_their_kept_form() {
        for flags in [0, 1, 4, 0x10, 0x40, 0x80, 0x800, ARITHMETIC] {
            // lahf: ah has the low byte of the flags, with bit 1 set; seto: al is 0 or 1.
            let kept = (flags & 0xD5 | 2) << 8 | u64::from(flags & 0x800 != 0);
            assert_eq!(kept_flags(kept), flags);
        }
    }
}
