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

/// Odd, with about as many ones as zeros.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
const LANES: usize = 4;

/// A check value of what a call gives away, in pieces of any number.
///
/// A step can be undone, so a change of one word shows in any case before [`Self::finish`] makes 32 bits of all. Four
/// lanes, because a multiplication waits for the one before it.
#[derive(Clone, Copy, Debug)]
pub struct BytesCheck {
    lanes: [u64; LANES],
    length: u64,
}

impl BytesCheck {
    /// Of no bytes.
    #[must_use]
    pub const fn new() -> Self {
        Self { lanes: [1, 2, 3, 4], length: 0 }
    }

    const fn step(lane: u64, word: u64) -> u64 {
        (lane ^ word).wrapping_mul(FACTOR).rotate_left(29)
    }

    /// Takes in a piece; where it begins and ends counts, too.
    pub fn add(&mut self, piece: &[u8]) {
        self.length += piece.len() as u64;
        let (blocks, rest) = piece.as_chunks::<{ 8 * LANES }>();
        // A copy, so that they stay in registers.
        let mut lanes = self.lanes;
        for block in blocks {
            for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<8>().0) {
                *lane = Self::step(*lane, u64::from_le_bytes(*word));
            }
        }
        for (lane, bytes) in lanes.iter_mut().zip(rest.chunks(8)) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            *lane = Self::step(*lane, u64::from_le_bytes(word));
        }
        self.lanes = lanes;
    }

    /// The check value.
    #[must_use]
    pub fn finish(self) -> u32 {
        let [first, rest @ ..] = self.lanes;
        let joined = rest.into_iter().fold(first, Self::step);
        let whole = Self::step(joined, self.length).wrapping_mul(FACTOR);
        (whole >> 32) as u32 ^ whole as u32
    }
}

impl Default for BytesCheck {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::{BytesCheck, CheckHash};
    use crate::kind::Kind;

    #[test]
    fn order_and_kind_both_matter() {
        let h = CheckHash::default();
        assert_ne!(h.then(Kind::Lock).then(Kind::Unlock), h.then(Kind::Unlock).then(Kind::Lock));
        assert_ne!(h.then(Kind::Lock), h.then(Kind::Unlock));
        assert_ne!(h.then(Kind::Lock), h);
    }

    fn check(pieces: &[&[u8]]) -> u32 {
        let mut check = BytesCheck::new();
        for piece in pieces {
            check.add(piece);
        }
        check.finish()
    }

    #[test]
    fn every_byte_and_the_length_matter() {
        for length in 0..100usize {
            let bytes: Vec<u8> = (0..length).map(|at| (at * 7 % 251) as u8).collect();
            let whole = check(&[&bytes]);
            let mut longer = bytes.clone();
            longer.push(0);
            assert_ne!(whole, check(&[&longer]));
            for at in 0..length {
                let mut other = bytes.clone();
                other[at] ^= 1;
                assert_ne!(whole, check(&[&other]), "byte {at} of {length}");
            }
        }
    }

    #[test]
    fn words_in_another_order_are_others() {
        let (a, b) = ([1u8; 8], [2u8; 8]);
        assert_ne!(check(&[&a, &b]), check(&[&b, &a]));
        assert_ne!(check(&[&[a, b].concat()]), check(&[&[b, a].concat()]));
    }
}
