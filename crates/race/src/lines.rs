//! Lines of 64 bytes, the grain at which segments are noted and remembered, and how
//! ranges are made of them.
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
/// Lines of a page, by which memory is counted.
pub(crate) const PAGE_LINES: u64 = 64;

/// A range of addresses as numbers of lines with the bytes of each.
pub fn pieces(range: Range<u64>) -> impl Iterator<Item = (u64, u64)> {
    let lines = if range.is_empty() { 0..0 } else { range.start / LINE..(range.end - 1) / LINE + 1 };
    lines.map(move |number| {
        let first = range.start.saturating_sub(number * LINE);
        let last = (range.end - 1 - number * LINE).min(LINE - 1);
        (number, u64::MAX << first & u64::MAX >> (LINE - 1 - last))
    })
}

/// The other way round: bytes of a line as ranges of addresses, in ascending order.
pub fn ranges(line: u64, bytes: u64) -> impl Iterator<Item = Range<u64>> {
    let mut at = 0;
    core::iter::from_fn(move || {
        let left = bytes.checked_shr(at).filter(|&left| left != 0)?;
        let start = at + left.trailing_zeros();
        at = start + (bytes >> start).trailing_ones();
        let first = line.wrapping_mul(LINE);
        Some(first.wrapping_add(u64::from(start))..first.wrapping_add(u64::from(at)))
    })
}

#[cfg(test)]
mod tests {
    use super::{pieces, ranges};
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

    #[test]
    fn bytes_are_ranges() {
        let of = |bytes| ranges(2, bytes).map(|range| (range.start - 128, range.end - 128)).collect::<Vec<_>>();
        assert_eq!(of(0), []);
        assert_eq!(of(u64::MAX), [(0, 64)]);
        assert_eq!(of(0b1110_0110), [(1, 3), (5, 8)]);
        assert_eq!(of(1 << 63), [(63, 64)]);
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
    }
}
