//! The hash of numbers that are no attack: one multiplication.
//!
//! Apart because the tables of objects and of pages use the same.

use core::hash::{BuildHasherDefault, Hasher};

/// A table keyed by numbers.
pub(crate) type Table<V> = hashbrown::HashMap<u64, V, BuildHasherDefault<Mix>>;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        // The table takes a bucket from the low bits and a tag from the high ones: the product's halves are folded.
        let product = u128::from(value ^ self.0 ^ 0x9E37_79B9_7F4A_7C15) * 0xD6E8_FEB8_6659_FD93;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}
