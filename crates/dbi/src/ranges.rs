//! Ranges of addresses with a value each: sorted, apart from each other, joined where
//! neighbours have the same.
//!
//! Apart from what the values mean. A list that is full says so from then on: who asks
//! must take what it does not know for the worst.

use crate::arena::{Arena, Array};
use core::ops::Range;

/// One range and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    start: u64,
    end: u64,
    value: u8,
}

/// The ranges. What is in none of them has the value 0.
#[derive(Debug)]
pub(crate) struct Ranges {
    entries: Array<Entry>,
    capacity: usize,
    overflowed: bool,
}

impl Ranges {
    /// Memory for so many ranges.
    pub(crate) const fn bytes(capacity: usize) -> usize {
        capacity * size_of::<Entry>()
    }

    pub(crate) fn new(arena: &mut Arena, capacity: usize) -> Option<Self> {
        Some(Self { entries: arena.array(capacity)?, capacity, overflowed: false })
    }

    /// Whether a range was lost.
    pub(crate) fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// The first entry that ends behind `address`.
    fn first_behind(&self, address: u64) -> usize {
        self.entries.partition_point(|entry| entry.end <= address)
    }

    /// The value at `address`, and where it may end.
    pub(crate) fn at(&self, address: u64) -> (u8, u64) {
        match self.entries.get(self.first_behind(address)) {
            Some(entry) if entry.start <= address => (entry.value, entry.end),
            Some(entry) => (0, entry.start),
            None => (0, u64::MAX),
        }
    }

    /// Whether any of `range` has a value.
    pub(crate) fn any(&self, range: &Range<u64>) -> bool {
        self.entries.get(self.first_behind(range.start)).is_some_and(|entry| entry.start < range.end)
    }

    /// Gives all of `range` this value.
    pub(crate) fn set(&mut self, range: &Range<u64>, value: u8) {
        if range.is_empty() {
            return;
        }
        let (mut new, mut first) =
            (Entry { start: range.start, end: range.end, value }, self.first_behind(range.start));
        let mut behind = first + self.entries[first..].partition_point(|entry| entry.start < range.end);
        let mut parts = [None; 3];
        if first < behind {
            let (low, high) = (self.entries[first], self.entries[behind - 1]);
            parts[0] = Some(Entry { end: range.start, ..low }).filter(|part| part.start < part.end);
            parts[2] = Some(Entry { start: range.end, ..high }).filter(|part| part.start < part.end);
        }
        if value != 0 {
            // Neighbours of the same value, cut off just now or apart before, become one with it.
            if parts[0].is_none() && first > 0 && self.entries[first - 1].end == new.start {
                first -= 1;
                parts[0] = Some(self.entries[first]);
            }
            if parts[2].is_none() && self.entries.get(behind).is_some_and(|next| next.start == new.end) {
                parts[2] = Some(self.entries[behind]);
                behind += 1;
            }
            if let Some(low) = parts[0].take_if(|low| low.value == value) {
                new.start = low.start;
            }
            if let Some(high) = parts[2].take_if(|high| high.value == value) {
                new.end = high.end;
            }
            parts[1] = Some(new);
        }
        self.replace(first, behind, parts.into_iter().flatten());
    }

    /// Puts `new` where the entries from `first` to `behind` are.
    fn replace(&mut self, first: usize, behind: usize, new: impl Iterator<Item = Entry> + Clone) {
        let (count, length) = (new.clone().count(), self.entries.len());
        let after = length - (behind - first) + count;
        if after > self.capacity {
            self.overflowed = true;
            return;
        }
        let filler = Entry { start: 0, end: 0, value: 0 };
        while self.entries.len() < after && self.entries.push(filler).is_ok() {}
        self.entries.copy_within(behind..length, first + count);
        for (place, entry) in self.entries[first..].iter_mut().zip(new) {
            *place = entry;
        }
        self.entries.truncate(after);
    }
}

#[cfg(test)]
mod tests {
    use super::Ranges;
    use crate::arena::Arena;
    use proptest::prelude::*;
    use std::ptr::NonNull;

    fn ranges(capacity: usize) -> Ranges {
        let words = Box::leak(vec![0u64; Ranges::bytes(capacity) / 8].into_boxed_slice());
        // SAFETY: the memory is given to this arena for good.
        let mut arena = unsafe { Arena::new(NonNull::from(&mut *words).cast(), words.len() * 8) };
        Ranges::new(&mut arena, capacity).unwrap()
    }

    proptest! {
        #[test]
        fn they_are_a_map_of_addresses(changes in prop::collection::vec((0u64..64, 0u64..20, 0u8..4), 1..60)) {
            let (mut ranges, mut expected) = (ranges(64), [0u8; 96]);
            for (start, length, value) in changes {
                ranges.set(&(start..start + length), value);
                expected[start as usize..(start + length) as usize].fill(value);
                for at in 0..expected.len() {
                    let (found, until) = ranges.at(at as u64);
                    prop_assert_eq!(found, expected[at]);
                    let same = expected[at..].iter().take_while(|&&other| other == found).count();
                    prop_assert!(until == u64::MAX || until == (at + same) as u64, "joined as far as may be");
                    prop_assert_eq!(ranges.any(&(at as u64..at as u64 + 1)), found != 0);
                }
            }
            prop_assert!(!ranges.overflowed());
        }
    }

    #[test]
    fn a_full_list_says_so() {
        let mut ranges = ranges(2);
        for start in [0, 10] {
            ranges.set(&(start..start + 5), 1);
        }
        assert!(!ranges.overflowed());
        ranges.set(&(20..25), 1);
        assert!(ranges.overflowed());
    }
}
