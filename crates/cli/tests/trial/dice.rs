//! Pseudo-random numbers, the same on every machine.
//!
//! Apart from the tests so that a failure can be repeated from its seed.

/// A generator of pseudo-random numbers, xorshift64*.
pub(crate) struct Dice(u64);

impl Dice {
    /// A generator that starts from `seed`.
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit
    }
}
