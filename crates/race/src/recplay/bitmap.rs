//! Sets of addresses as multilevel bitmaps.
//!
//! Three levels: pages of 4096 bytes by their number, for each page a word with a
//! bit a line, for each of those lines a word with a bit a byte. Two sets are
//! compared level by level, so that what they do not have in common costs little.
//!
//! Apart from the list of segments because it knows nothing of them.

use crate::lines::PAGE_LINES;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A set of bytes.
#[derive(Debug, Default)]
pub(super) struct Bitmap {
    pages: BTreeMap<u64, Page>,
}

#[derive(Debug, Default)]
struct Page {
    /// The lines that have bytes in the set.
    lines: u64,
    /// The bytes of each of these, by ascending line.
    bytes: Vec<u64>,
}

impl Page {
    /// Where the bytes of a line stand, or would stand.
    fn place(&self, line: u64) -> usize {
        (self.lines & ((1 << line) - 1)).count_ones() as usize
    }
}

impl Bitmap {
    /// Adds bytes of a line.
    pub(super) fn insert(&mut self, number: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let page = self.pages.entry(number / PAGE_LINES).or_default();
        let line = number % PAGE_LINES;
        let place = page.place(line);
        if page.lines >> line & 1 == 0 {
            page.lines |= 1 << line;
            page.bytes.insert(place, 0);
        }
        page.bytes[place] |= bytes;
    }

    /// Calls `found` with each line that two sets have bytes of in common, and those bytes.
    pub(super) fn common(&self, other: &Self, mut found: impl FnMut(u64, u64)) {
        let (few, many) = if self.pages.len() < other.pages.len() { (self, other) } else { (other, self) };
        for (&number, page) in &few.pages {
            let Some(other) = many.pages.get(&number) else { continue };
            let mut lines = page.lines & other.lines;
            while lines != 0 {
                let line = u64::from(lines.trailing_zeros());
                lines &= lines - 1;
                let bytes = page.bytes[page.place(line)] & other.bytes[other.place(line)];
                if bytes != 0 {
                    found(number * PAGE_LINES + line, bytes);
                }
            }
        }
    }

    /// Bytes of memory in use.
    pub(super) fn bytes(&self) -> usize {
        self.pages.values().map(|page| size_of::<(u64, Page)>() + page.bytes.capacity() * 8).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::Bitmap;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn common_bytes_are_those_of_plain_sets(
            a in prop::collection::btree_set(0..20_000u64, 0..200),
            b in prop::collection::btree_set(0..20_000u64, 0..200),
        ) {
            let map = |set: &BTreeSet<u64>| {
                let mut map = Bitmap::default();
                set.iter().rev().for_each(|byte| map.insert(byte / 64, 1 << (byte % 64)));
                map
            };
            let mut common = BTreeSet::new();
            map(&a).common(&map(&b), |line, bytes| {
                common.extend((0..64).filter(|i| bytes >> i & 1 == 1).map(|i| line * 64 + i));
            });
            prop_assert_eq!(common, a.intersection(&b).copied().collect::<BTreeSet<_>>());
        }
    }
}
