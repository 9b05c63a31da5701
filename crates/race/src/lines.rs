//! Lines of 64 bytes, the grain at which segments are noted and remembered, and how
//! ranges and shards are made of them.
//!
//! Apart from the history because whoever calls cuts ranges by the same rule.

use core::ops::Range;

/// What a segment did to one line of 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// The line's address divided by 64.
    pub number: u64,
    /// The bytes that were read: bit `i` stands for byte `i`.
    pub read: u64,
    /// The bytes that were written.
    pub written: u64,
}

/// Bytes of a line.
pub(crate) const LINE: u64 = 64;
/// Lines of a page: what lies within one is remembered side by side.
pub(crate) const PAGE_LINES: u64 = 64;
const PAGE: u64 = LINE * PAGE_LINES;

/// A range of addresses as numbers of lines with the bytes of each.
pub fn pieces(range: Range<u64>) -> impl Iterator<Item = (u64, u64)> {
    let lines = if range.is_empty() { 0..0 } else { range.start / LINE..(range.end - 1) / LINE + 1 };
    lines.map(move |number| {
        let first = range.start.saturating_sub(number * LINE);
        let last = (range.end - 1 - number * LINE).min(LINE - 1);
        (number, u64::MAX << first & u64::MAX >> (LINE - 1 - last))
    })
}

/// Which of `shards` histories remembers a line. Lines of the same 4096 bytes share one.
#[inline]
pub fn shard_of(line: u64, shards: usize) -> usize {
    let page = line / PAGE_LINES;
    (page.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % shards.max(1)
}

/// A range of addresses cut into parts that one shard remembers, as (shard, part).
pub fn by_shard(range: Range<u64>, shards: usize) -> impl Iterator<Item = (usize, Range<u64>)> {
    let mut start = range.start;
    core::iter::from_fn(move || {
        if start >= range.end {
            return None;
        }
        let end = (start / PAGE).checked_add(1).and_then(|page| page.checked_mul(PAGE)).unwrap_or(range.end);
        let part = start..end.min(range.end);
        start = part.end;
        Some((shard_of(part.start / LINE, shards), part))
    })
}

#[cfg(test)]
mod tests {
    use super::{by_shard, pieces, shard_of};
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    #[test]
    fn a_range_ends_within_a_line_or_at_its_end() {
        assert_eq!(pieces(0..64).collect::<Vec<_>>(), [(0, u64::MAX)]);
        assert_eq!(pieces(62..65).collect::<Vec<_>>(), [(0, 3 << 62), (1, 1)]);
        assert_eq!(pieces(7..7).count(), 0);
        assert_eq!(pieces(Range { start: 8, end: 7 }).count(), 0);
        assert_eq!(pieces(u64::MAX - 1..u64::MAX).collect::<Vec<_>>(), [(u64::MAX / 64, 1 << 62)]);
    }

    use core::ops::Range;

    proptest! {
        #[test]
        fn pieces_are_the_bytes_of_the_range(start in 0..1000u64, length in 0..1000u64) {
            let bytes: BTreeSet<u64> = pieces(start..start + length)
                .flat_map(|(line, mask)| (0..64).filter(move |i| mask >> i & 1 == 1).map(move |i| line * 64 + i))
                .collect();
            prop_assert_eq!(bytes, (start..start + length).collect::<BTreeSet<_>>());
        }

        #[test]
        fn parts_follow_one_another_and_stay_within_a_shard(start in 0..1u64 << 40, length in 0..1u64 << 16, shards in 0..9usize) {
            let mut at = start;
            for (shard, part) in by_shard(start..start + length, shards) {
                prop_assert_eq!(part.start, at);
                prop_assert!(pieces(part.clone()).all(|(line, _)| shard_of(line, shards) == shard));
                at = part.end;
            }
            prop_assert_eq!(at, start + length);
        }
    }
}
