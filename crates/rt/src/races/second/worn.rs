//! Accesses that have raced so often that nothing new comes of them.
//!
//! Apart from the accesses because threads look here without the lock of those. Two loops
//! that race for each word of a buffer, in segment after segment, come to the second pass
//! with each access: once an instruction has raced at an address [`OFTEN`] times with
//! instructions that were told before, for bytes that were told before, it is let pass
//! there. So each racing byte still belongs to a race; of another instruction that comes
//! to race with this one there, later, nothing is told.

use alloc::collections::BTreeMap;
use core::ops::Range;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// So often, without anything new.
const OFTEN: u32 = 256;
/// No plain access has more bytes.
const LONGEST: u64 = 64;
/// So many are counted, and let pass, at most: a buffer of two megabytes.
const COUNTED_MAX: usize = 1 << 18;
/// Places, more than there may be keys in them.
const PLACES: usize = 1 << 19;
/// How far from its own place a key may be.
const NEAR: usize = 16;
const NONE: u64 = 0;

/// The keys of those that are let pass.
static PASSING: [AtomicU64; PLACES] = [const { AtomicU64::new(NONE) }; PLACES];

/// How often each raced without anything new.
#[derive(Default)]
pub(super) struct Worn(BTreeMap<u64, u32>);

impl Worn {
    /// It raced, and all of that was known.
    pub(super) fn raced(&mut self, ip: u64, range: &Range<u64>) {
        let Some(key) = key(ip, range) else { return };
        if self.0.len() >= COUNTED_MAX && !self.0.contains_key(&key) {
            return;
        }
        let times = self.0.entry(key).or_default();
        *times += 1;
        if *times == OFTEN
            && let Some(place) = places(key).find(|place| place.load(Relaxed) == NONE)
        {
            place.store(key, Relaxed);
        }
    }

    /// What was known of any counts no more.
    pub(super) fn forget(&mut self) {
        if !self.0.is_empty() {
            self.0.clear();
            for place in &PASSING {
                place.store(NONE, Relaxed);
            }
        }
    }
}

/// Whether the instruction at `ip` is let pass at these bytes.
pub(crate) fn is_worn(ip: u64, range: &Range<u64>) -> bool {
    // Each key took the first free place, and none is given back by itself.
    let taken = |key| places(key).map(|place| place.load(Relaxed)).take_while(|&there| there != NONE);
    key(ip, range).is_some_and(|key| taken(key).any(|there| there == key))
}

/// Of an instruction and the bytes of an access; none for those that may have any number of them.
fn key(ip: u64, range: &Range<u64>) -> Option<u64> {
    const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
    let bytes = range.end.wrapping_sub(range.start);
    let mixed = (ip.wrapping_mul(ODD).rotate_left(29) ^ range.start).wrapping_mul(ODD).rotate_left(29) ^ bytes;
    (bytes <= LONGEST).then(|| mixed.wrapping_mul(ODD) | 1)
}

fn places(key: u64) -> impl Iterator<Item = &'static AtomicU64> {
    let first = (key >> 40) as usize;
    (first..first + NEAR).map(|place| &PASSING[place % PLACES])
}

#[cfg(test)]
mod tests {
    use super::{OFTEN, Worn, is_worn};

    #[test]
    fn an_access_wears_out_by_its_place_and_its_bytes() {
        let mut worn = Worn::default();
        for time in 1..=OFTEN {
            assert!(!is_worn(7, &(64..72)), "after {time} times");
            worn.raced(7, &(64..72));
        }
        assert!(is_worn(7, &(64..72)));
        assert!(!is_worn(8, &(64..72)) && !is_worn(7, &(72..80)) && !is_worn(7, &(64..68)));
        worn.forget();
        assert!(!is_worn(7, &(64..72)));
        (0..=OFTEN).for_each(|_| worn.raced(7, &(64..200)));
        assert!(!is_worn(7, &(64..200)), "a string may have other bytes the next time");
    }
}
