//! Registers and the part of the stack that was kept.
//!
//! Apart from the rules of unwinding because whatever they ask for may not be known: here
//! nothing has a value that was not seen.

use crate::raw::Snapshot;

/// Where a register's value is, in the terms of the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Still in the register.
    Register,
    /// On the stack.
    Slot(u64),
}

/// Registers by their numbers in DWARF (System V ABI, AMD64 supplement, figure 3.36); what is not known is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Registers {
    values: [Option<u64>; Registers::COUNT],
    /// `None` where a value was computed, or nobody says.
    origins: [Option<Origin>; Registers::COUNT],
}

impl Registers {
    const COUNT: usize = 17;
    pub(super) const RBX: u16 = 3;
    pub(super) const RBP: u16 = 6;
    pub(super) const RSP: u16 = 7;
    pub(super) const R12: u16 = 12;
    pub(super) const R15: u16 = 15;
    /// The return address; of the innermost frame, where it is.
    pub(super) const RIP: u16 = 16;

    /// Those of a snapshot.
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        let numbers = [Self::RIP, Self::RSP, Self::RBP, Self::RBX, 12, 13, 14, 15];
        let mut registers = Self::default();
        for (number, value) in numbers.into_iter().zip(snapshot.registers) {
            registers.set_from(number, Some(value), Some(Origin::Register));
        }
        registers
    }

    pub(super) fn get(&self, number: u16) -> Option<u64> {
        self.values.get(usize::from(number)).copied().flatten()
    }

    /// A value that comes from nowhere in particular.
    pub(super) fn set(&mut self, number: u16, value: Option<u64>) {
        self.set_from(number, value, None);
    }

    pub(super) fn set_from(&mut self, number: u16, value: Option<u64>, origin: Option<Origin>) {
        if let Some(register) = self.values.get_mut(usize::from(number)) {
            *register = value;
            self.origins[usize::from(number)] = origin;
        }
    }

    /// Where the register's value is, if that is known.
    pub(super) fn origin(&self, number: u16) -> Option<Origin> {
        self.origins.get(usize::from(number)).copied().flatten()
    }

    /// What a caller still has in its registers if its callee says nothing of them: those that a callee must keep.
    pub(super) fn kept(&self) -> Self {
        let keeps = |number| matches!(number, Self::RBX | Self::RBP | Self::R12..=Self::R15);
        let mut kept = Self::default();
        for number in (0..Self::COUNT as u16).filter(|&number| keeps(number)) {
            kept.set_from(number, self.get(number), self.origin(number));
        }
        kept
    }
}

/// The part of a stack that was kept.
#[derive(Clone, Copy)]
pub(super) struct Memory<'a> {
    start: u64,
    words: &'a [u64],
}

impl<'a> Memory<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        Self { start: snapshot.registers[1], words: &snapshot.words }
    }

    /// The word at `address`, which may lie across two.
    pub(super) fn word(self, address: u64) -> Option<u64> {
        let into = address.checked_sub(self.start)?;
        let index = usize::try_from(into / 8).ok()?;
        let bits = into % 8 * 8;
        let low = *self.words.get(index)?;
        if bits == 0 {
            return Some(low);
        }
        let high = *self.words.get(index + 1)?;
        Some(low >> bits | high << (64 - bits))
    }

    /// The number of `size` bytes at `address`, within the words that are known.
    pub(super) fn number(self, address: u64, size: u8) -> Option<u64> {
        let bits = u32::from(size).checked_mul(8).filter(|bits| (8..=64).contains(bits))?;
        let mask = u64::MAX >> (64 - bits);
        let aligned = address & !7;
        // A short number at the end of the stack has no word of eight bytes of its own.
        if address - aligned + u64::from(size) <= 8 && self.start.is_multiple_of(8) {
            return Some(self.word(aligned)? >> ((address - aligned) * 8) & mask);
        }
        Some(self.word(address)? & mask)
    }
}

#[cfg(test)]
mod tests {
    use super::{Memory, Registers};
    use crate::raw::Snapshot;

    #[test]
    fn numbers_of_all_sizes_are_read_within_the_words_alone() {
        let registers = [0x40_0000, 0x7000, 3, 4, 12, 13, 14, 15];
        let snapshot = Snapshot { registers, words: vec![0x8877_6655_4433_2211, 0x00ff_eedd_ccbb_aa99] };
        let memory = Memory::new(&snapshot);
        assert_eq!(memory.word(0x7000), Some(0x8877_6655_4433_2211));
        assert_eq!(memory.word(0x7003), Some(0xbbaa_9988_7766_5544));
        assert_eq!((memory.word(0x6fff), memory.word(0x7009), memory.word(0x7010)), (None, None, None));
        assert_eq!(memory.word(u64::MAX), None);
        assert_eq!(memory.number(0x700c, 4), Some(0x00ff_eedd));
        assert_eq!(memory.number(0x7006, 4), Some(0xaa99_8877));
        assert_eq!((memory.number(0x700e, 4), memory.number(0x7000, 0), memory.number(0x7000, 9)), (None, None, None));
    }

    #[test]
    fn a_caller_has_what_callees_keep() {
        let snapshot = Snapshot { registers: [1, 2, 3, 4, 5, 6, 7, 8], words: Vec::new() };
        let kept = Registers::new(&snapshot).kept();
        let known: Vec<_> = (0..20).filter_map(|number| Some((number, kept.get(number)?))).collect();
        assert_eq!(known, [(3, 4), (6, 3), (12, 5), (13, 6), (14, 7), (15, 8)]);
    }
}
