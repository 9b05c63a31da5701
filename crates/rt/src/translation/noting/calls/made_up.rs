//! Memory for the tests: one text at a fixed place, with an end, and what lies behind it.

use super::shapes::Memory;

pub(super) struct Text(pub(super) Vec<u8>);

impl Text {
    pub(super) const START: u64 = 0x1000;

    /// With its end.
    pub(super) fn of(text: &str) -> Self {
        Self(text.bytes().chain([0]).collect())
    }
}

impl Memory for Text {
    fn byte(&self, address: u64) -> Option<u8> {
        self.0.get(usize::try_from(address.checked_sub(Self::START)?).ok()?).copied()
    }
}
