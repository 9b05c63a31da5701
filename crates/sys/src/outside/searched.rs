//! What a search for such instructions has found, in words that others may keep: the
//! next process that maps the same code need not look through it.
//!
//! Apart from the places because those are of one process, and at addresses.

use super::places::KEPT;
use super::{Outside, Tally};
use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

/// Words in front of those of places.
const HEAD: usize = 3;
/// Words of a place: where it is, and the bytes there.
const WORDS: usize = 3;
/// Of so many places words are kept.
const FOUND_MAX: usize = 200;

/// Who keeps what was found.
#[derive(Clone, Copy)]
pub struct Searched<'a> {
    /// What was kept under a key.
    pub recall: &'a dyn Fn(u64) -> Option<&'a [AtomicU32]>,
    /// Keeps something under a key.
    pub remember: &'a dyn Fn(u64, &[u32]),
}

impl fmt::Debug for Searched<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Searched")
    }
}

impl Searched<'_> {
    /// Nobody does.
    pub const NOWHERE: Self = Self { recall: &|_| None, remember: &|_, _| () };
}

/// A search as it goes on.
pub(super) struct Finding {
    words: [u32; HEAD + WORDS * FOUND_MAX],
    used: usize,
}

impl Finding {
    pub(super) fn new() -> Self {
        Self { words: [0; HEAD + WORDS * FOUND_MAX], used: HEAD }
    }

    /// A place, by its offset in the code.
    pub(super) fn add(&mut self, at: usize, bytes: [u8; KEPT]) {
        let low = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let high = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        let room = self.words.get_mut(self.used..self.used + WORDS);
        match (room, u32::try_from(at)) {
            (Some(room), Ok(at)) => room.copy_from_slice(&[at, low, high]),
            // Then there are no words.
            _ => self.used = self.words.len(),
        }
        self.used += WORDS;
    }

    /// All words, unless there are too many.
    pub(super) fn words(&mut self, tally: &Tally) -> Option<&[u32]> {
        self.words[..HEAD].copy_from_slice(&[tally.found, tally.unsure, tally.unsure_of_time]);
        self.words.get(..self.used)
    }
}

/// Calls `keep` with each place that was found, if all are there as they were found.
pub(super) fn recall(words: &[AtomicU32], code: &[u8], keep: &mut impl FnMut(usize, [u8; KEPT])) -> Option<Tally> {
    let word = |at: usize| words.get(at).map(|word| word.load(Ordering::Relaxed));
    let [found, unsure, unsure_of_time] = [word(0)?, word(1)?, word(2)?];
    let places = || words[HEAD..].chunks_exact(WORDS).map(Words::each_word);
    let is_there = |[at, low, high]: [u32; WORDS]| {
        let bytes = bytes([low, high]);
        let outside = Outside::at(&bytes);
        let kept = outside.and_then(|outside| bytes.get(..outside.length));
        kept.is_some_and(|kept| code.get(at as usize..).is_some_and(|code| code.starts_with(kept)))
    };
    if places().len() != found as usize || !places().all(is_there) {
        return None;
    }
    places().for_each(|[at, low, high]| keep(at as usize, bytes([low, high])));
    Some(Tally { found, unsure, unsure_of_time })
}

fn bytes(halves: [u32; 2]) -> [u8; KEPT] {
    (u64::from(halves[0]) | u64::from(halves[1]) << 32).to_le_bytes()
}

trait Words {
    fn each_word(&self) -> [u32; WORDS];
}

impl Words for [AtomicU32] {
    fn each_word(&self) -> [u32; WORDS] {
        core::array::from_fn(|index| self[index].load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::{Finding, recall};
    use crate::outside::Tally;
    use std::sync::atomic::AtomicU32;

    const RDTSC: [u8; 8] = [0x0F, 0x31, 0, 0, 0, 0, 0, 0];
    const CODE: [u8; 8] = [0x90, 0x0F, 0x31, 0x90, 0x90, 0x0F, 0x31, 0xC3];

    fn kept(places: &[usize]) -> Option<Vec<AtomicU32>> {
        let mut finding = Finding::new();
        for &at in places {
            finding.add(at, RDTSC);
        }
        let tally = Tally { found: places.len() as u32, unsure: 2, unsure_of_time: 1 };
        finding.words(&tally).map(|words| words.iter().copied().map(AtomicU32::new).collect())
    }

    #[test]
    fn what_was_found_is_found_again_where_the_code_is_the_same() {
        let words = kept(&[1, 5]).expect("two places have room");
        let mut places = Vec::new();
        let tally = recall(&words, &CODE, &mut |at, bytes| places.push((at, bytes)));
        assert_eq!(tally, Some(Tally { found: 2, unsure: 2, unsure_of_time: 1 }));
        assert_eq!(places, [(1, RDTSC), (5, RDTSC)]);
    }

    #[test]
    fn other_code_and_damaged_words_are_looked_through_anew() {
        let nothing = &mut |_, _| panic!("nothing is known");
        let words = kept(&[1, 5]).expect("two places have room");
        assert_eq!(recall(&words, &CODE[..6], nothing), None);
        assert_eq!(recall(&words, &[0x90; 8], nothing), None);
        for length in 0..words.len() {
            assert_eq!(recall(&words[..length], &CODE, nothing), None);
        }
        assert_eq!(kept(&[1; 1000]).map(|words| words.len()), None, "too many");
    }
}
