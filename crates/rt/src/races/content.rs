//! What stands at the bytes of an access, as it reads or writes them.
//!
//! Apart because it is asked for as late as the access is kept: most of those to racing
//! bytes repeat others.

use alloc::vec::Vec;
use core::ops::Range;
use relive_accesses::Stored;
use relive_dbi::read_own_memory;
use relive_race::Detail;

/// So many lines of one access are kept at most.
const LINES_MAX: usize = 16;
const LINE: u64 = 64;

/// Where it is to be found.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content {
    /// Nowhere.
    Unknown,
    /// In memory.
    Memory,
    /// With the instruction, whose access begins at this address.
    Stored(u64, Stored),
}

impl Content {
    /// The bytes from `address` on, which the access touches. Whether they are known.
    fn at(&self, address: u64, into: &mut [u8]) -> bool {
        match self {
            Self::Unknown => false,
            Self::Memory => read_own_memory(address, into) == into.len(),
            Self::Stored(start, stored) => stored.at(address.wrapping_sub(*start), into),
        }
    }
}

/// What was kept of one access.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    /// All of it, if it had eight bytes or fewer.
    pub(super) value: Option<u64>,
    /// Else the lines that are watched, with the bytes of the access in them.
    lines: Vec<(u64, [u8; LINE as usize])>,
}

impl Kept {
    pub(super) fn of(content: &Content, range: &Range<u64>, detail: &Detail) -> Self {
        let bytes = (range.end - range.start) as usize;
        if matches!(content, Content::Unknown) {
            return Self::default();
        }
        if bytes <= 8 {
            let mut word = [0; 8];
            let known = content.at(range.start, &mut word[..bytes]);
            return Self { value: known.then(|| u64::from_le_bytes(word)), lines: Vec::new() };
        }
        let mut lines = Vec::new();
        for line in detail.watched_lines(range).take(LINES_MAX) {
            let (start, end) = (range.start.max(line * LINE), range.end.min(line * LINE + LINE));
            let mut there = [0; LINE as usize];
            let part = &mut there[(start % LINE) as usize..][..(end - start) as usize];
            if content.at(start, part) {
                lines.push((line, there));
            }
        }
        Self { value: None, lines }
    }

    /// Of the bytes of a line that race those side by side, from the first one on.
    pub(super) fn racing(&self, line: u64, bytes: u64) -> &[u8] {
        let first = bytes.trailing_zeros();
        let count = (bytes >> first).trailing_ones();
        let found = self.lines.iter().find(|(number, _)| *number == line);
        found.map_or(&[], |(_, there)| &there[first as usize..][..count as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::{Content, Kept};
    use relive_race::Detail;

    #[test]
    fn what_is_kept_are_the_lines_that_are_watched() {
        let memory: Vec<u8> = (0..200).collect();
        let start = (memory.as_ptr().addr() as u64).next_multiple_of(64);
        let line = start / 64;
        let mut detail = Detail::new();
        detail.watch(line + 1, 0b111 << 5, 0);
        let first = start + 8;
        let kept = Kept::of(&Content::Memory, &(first..start + 100), &detail);
        assert_eq!(kept.value, None);
        let there = |address: u64| memory[(address - memory.as_ptr().addr() as u64) as usize];
        assert_eq!(kept.racing(line + 1, 0b11 << 5), [there(start + 69), there(start + 70)]);
        assert!(kept.racing(line, 1 << 10).is_empty());
        let short = Kept::of(&Content::Memory, &(start + 64..start + 66), &detail);
        assert_eq!(short.value, Some(u64::from(there(start + 64)) | u64::from(there(start + 65)) << 8));
        assert_eq!(Kept::of(&Content::Memory, &(16..24), &detail).value, None);
        assert_eq!(Kept::of(&Content::Unknown, &(first..first + 4), &detail).value, None);
    }
}
