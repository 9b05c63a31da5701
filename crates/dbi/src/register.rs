//! General registers and flags as sets, and where the processor's numbers for them
//! come from.
//!
//! Apart from iced's `Register`, which knows 250 of them: what the translator saves,
//! lends and restores are these sixteen.

use iced_x86::Register;

/// A general register of 64 bits, by the processor's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gpr(u8);

#[allow(missing_docs)]
impl Gpr {
    pub const RAX: Gpr = Gpr(0);
    pub const RCX: Gpr = Gpr(1);
    pub const RDX: Gpr = Gpr(2);
    pub const RBX: Gpr = Gpr(3);
    pub const RSP: Gpr = Gpr(4);
    pub const RBP: Gpr = Gpr(5);
    pub const RSI: Gpr = Gpr(6);
    pub const RDI: Gpr = Gpr(7);
    pub const R8: Gpr = Gpr(8);
    pub const R9: Gpr = Gpr(9);
    pub const R10: Gpr = Gpr(10);
    pub const R11: Gpr = Gpr(11);
    pub const R12: Gpr = Gpr(12);
    pub const R13: Gpr = Gpr(13);
    pub const R14: Gpr = Gpr(14);
    pub const R15: Gpr = Gpr(15);
}

impl Gpr {
    /// The register that `register` is, or is a part of. `None` if it is no general register.
    pub fn containing(register: Register) -> Option<Self> {
        register.is_gpr().then(|| Self(register.full_register().number() as u8))
    }

    /// The register with the number `number`, 0 to 15.
    pub const fn numbered(number: u8) -> Self {
        Self(number & 15)
    }

    /// The processor's number, 0 to 15.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The three bits that go into an operand byte.
    pub(crate) const fn low(self) -> u8 {
        self.0 & 7
    }

    /// The fourth bit, which goes into a prefix.
    pub(crate) const fn high(self) -> u8 {
        self.0 >> 3
    }
}

/// A set of general registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GprSet(u16);

impl GprSet {
    /// None of them.
    pub const NONE: Self = Self(0);
    /// All sixteen.
    pub const ALL: Self = Self(u16::MAX);

    /// The set with `register` in it.
    #[must_use]
    pub const fn with(self, register: Gpr) -> Self {
        Self(self.0 | 1 << register.0)
    }

    /// The set without `register`.
    #[must_use]
    pub const fn without(self, register: Gpr) -> Self {
        Self(self.0 & !(1 << register.0))
    }

    /// What is in either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is in this set and not in the other.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Its registers, by number.
    pub(crate) fn registers(self) -> impl Iterator<Item = Gpr> {
        (0..16).map(Gpr::numbered).filter(move |&register| self.contains(register))
    }

    /// Whether the register is in the set.
    pub const fn contains(self, register: Gpr) -> bool {
        self.0 >> register.0 & 1 != 0
    }
}

/// The six arithmetic flags, as iced's `RflagsBits`: OF 1, SF 2, ZF 4, AF 8, CF 16, PF 32.
pub(crate) const FLAGS: u32 = 0x3F;

#[cfg(test)]
mod tests {
    use super::{FLAGS, Gpr, GprSet};
    use iced_x86::{Register, RflagsBits};

    #[test]
    fn parts_belong_to_their_whole() {
        assert_eq!(Gpr::containing(Register::AH), Some(Gpr::RAX));
        assert_eq!(Gpr::containing(Register::R13D), Some(Gpr::R13));
        assert_eq!(Gpr::containing(Register::SIL), Some(Gpr::RSI));
        assert_eq!(Gpr::containing(Register::XMM1), None);
        assert_eq!(Gpr::containing(Register::None), None);
    }

    #[test]
    fn sets_keep_what_is_put_in() {
        let set = GprSet::NONE.with(Gpr::RBX).with(Gpr::R15);
        assert!(set.contains(Gpr::RBX) && set.contains(Gpr::R15) && !set.contains(Gpr::RAX));
        assert_eq!(set.without(Gpr::RBX), GprSet::NONE.with(Gpr::R15));
        assert_eq!(GprSet::ALL.minus(set).union(set), GprSet::ALL);
    }

    #[test]
    fn the_arithmetic_flags_are_iceds() {
        use RflagsBits as F;
        assert_eq!(FLAGS, F::OF | F::SF | F::ZF | F::AF | F::CF | F::PF);
    }
}
