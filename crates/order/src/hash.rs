//! The rolling hash of a thread's event kinds, which catches a replay that does
//! something else than the recording did.
//!
//! Apart because both sides must compute the same function forever: it is part
//! of the trace format.

use crate::kind::Kind;

/// Events between two stored check hashes (`DESIGN` section 5: at least one per 256).
pub const CHECK_INTERVAL: u64 = 256;

const MULTIPLIER: u32 = 0x9E37_79B1;

/// Rolling hash over the kinds of a thread's events, in program order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckHash(pub u32);

impl CheckHash {
    /// The hash after one more event of kind `kind`.
    #[inline(always)]
    #[must_use]
    pub const fn then(self, kind: Kind) -> Self {
        Self((self.0 ^ kind as u32).wrapping_mul(MULTIPLIER))
    }
}

#[cfg(test)]
mod tests {
    use super::CheckHash;
    use crate::kind::Kind;

    #[test]
    fn order_and_kind_both_matter() {
        let h = CheckHash::default();
        assert_ne!(h.then(Kind::Lock).then(Kind::Unlock), h.then(Kind::Unlock).then(Kind::Lock));
        assert_ne!(h.then(Kind::Lock), h.then(Kind::Unlock));
        assert_ne!(h.then(Kind::Lock), h);
    }
}
