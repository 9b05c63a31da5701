//! Which races are told in full, and which only with their bytes.
//!
//! Apart from the accesses because here is what bounds the findings: two loops race for
//! millions of bytes in two instructions. Each pair of instructions is told in full for
//! some bytes of each piece of memory that races as a whole; of the others it
//! is told which they are, so that each racing byte belongs to a race.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Range;
use relive_race::{Clock, Kind};
use relive_trace::races::told::tag;

/// How often a pair of instructions is told in full for neighbouring bytes.
const FOR_A_PIECE: u32 = 16;
/// How often at all,
const FOR_A_PAIR: usize = 256;
/// and all pairs together, but for those that are new.
const FOR_ALL: u64 = 2048;
/// Words about bytes that may wait to be written.
const WAITING_MAX: usize = 4096;

/// Two instructions, what they did, and whether that is perhaps atomic.
pub(super) type Pair = (u64, u64, Kind, bool);

/// How much is new about a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Telling {
    /// It is told in full, as the next one.
    InFull,
    /// More bytes of one that was told are written down.
    Bytes,
    /// Nothing.
    NotAtAll,
}

/// What was told.
#[derive(Default)]
pub(super) struct Told {
    /// Pieces of memory that race, in order.
    pieces: Vec<Range<u64>>,
    pairs: BTreeMap<Pair, OfPair>,
    /// Races that were told in full.
    count: u64,
    /// By the number of a race and a line: bytes that are known to belong to it.
    bytes: BTreeMap<(u64, u64), u64>,
    /// Records of bytes that are not written yet.
    waiting: Vec<u64>,
}

/// What was told of a pair.
struct OfPair {
    /// The number of its first race.
    first: u64,
    addresses: BTreeSet<u64>,
    /// By where a piece begins: the number of its first race, and how many were told.
    pieces: BTreeMap<u64, (u64, u32)>,
}

impl Told {
    /// More bytes that race; in the order of their addresses.
    pub(super) fn watch(&mut self, range: Range<u64>) {
        match self.pieces.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.pieces.push(range),
        }
    }

    /// A pair races. How it is to be told. `block` is where the heap block begins in which the bytes lie.
    pub(super) fn telling(&mut self, pair: Pair, met: &Met, block: Option<u64>) -> Telling {
        let address = met.address();
        let behind = self.pieces.partition_point(|piece| piece.start <= address);
        let piece = behind.checked_sub(1).map_or(address, |at| self.pieces[at].start).max(block.unwrap_or(0));
        let number = self.count;
        let (of, new) = if let Some(of) = self.pairs.get_mut(&pair) {
            let few = of.pieces.get(&piece).is_none_or(|&(_, told)| told < FOR_A_PIECE);
            let new = few && self.count < FOR_ALL && of.addresses.len() < FOR_A_PAIR;
            let new = new && of.addresses.insert(address);
            (of, new)
        } else {
            let of = OfPair { first: number, addresses: [address].into(), pieces: BTreeMap::new() };
            (self.pairs.entry(pair).or_insert(of), true)
        };
        if new {
            of.pieces.entry(piece).or_insert((number, 0)).1 += 1;
            self.count += 1;
            self.bytes.insert((number, met.line), met.bytes);
            Telling::InFull
        } else {
            let race = of.pieces.get(&piece).map_or(of.first, |&(first, _)| first);
            let known = self.bytes.entry((race, met.line)).or_default();
            if met.bytes & !*known != 0 {
                self.waiting.extend([tag::MORE, 3, race, met.line, met.bytes & !*known]);
                *known |= met.bytes;
                return Telling::Bytes;
            }
            Telling::NotAtAll
        }
    }

    /// What is to be written, if it is much or `all` is wanted.
    pub(super) fn take(&mut self, all: bool) -> Vec<u64> {
        let enough = all || self.waiting.len() >= WAITING_MAX;
        if enough { core::mem::take(&mut self.waiting) } else { Vec::new() }
    }
}

/// What the detector said of a pair.
pub(super) struct Met {
    pub(super) line: u64,
    pub(super) bytes: u64,
    pub(super) kind: relive_race::Kind,
    pub(super) perhaps_atomic: bool,
    pub(super) records: [u32; 2],
    pub(super) clocks: [Clock; 2],
}

impl Met {
    pub(super) fn of(pair: &relive_race::Pair<'_>) -> Self {
        Self {
            line: pair.line,
            bytes: pair.bytes,
            kind: pair.kind,
            perhaps_atomic: pair.perhaps_atomic,
            records: [pair.older.0, pair.newer.0],
            clocks: [pair.older_clock.clone(), pair.newer_clock.clone()],
        }
    }

    /// The first racing byte.
    pub(super) fn address(&self) -> u64 {
        self.line * 64 + u64::from(self.bytes.trailing_zeros())
    }
}

#[cfg(test)]
mod tests {
    use super::{FOR_A_PAIR, FOR_A_PIECE, Met, Telling, Told};
    use alloc::vec::Vec;
    use relive_race::{Clock, Clocks, Kind};
    use relive_trace::races::told::tag;

    const PAIR: super::Pair = (1, 2, Kind::Accesses, false);

    fn met(clock: &Clock, line: u64, byte: u32) -> Met {
        let clocks = [clock.clone(), clock.clone()];
        Met { line, bytes: 1 << byte, kind: Kind::Accesses, perhaps_atomic: false, records: [0, 1], clocks }
    }

    #[test]
    fn a_pair_is_told_for_each_piece_and_each_byte_is_known() {
        let clocks = Clocks::new(16);
        assert_eq!(clocks.start(0), Ok(()));
        let clock = clocks.current(0).clone();
        let mut told = Told::default();
        told.watch(0..128);
        told.watch(128..192);
        told.watch(640..644);
        let all = (0..3).flat_map(|line| (0..64).map(move |byte| (line, byte)));
        let full =
            all.filter(|&(line, byte)| told.telling(PAIR, &met(&clock, line, byte), None) == Telling::InFull).count();
        assert_eq!(full as u32, FOR_A_PIECE);
        assert_eq!(told.telling(PAIR, &met(&clock, 10, 0), None), Telling::InFull, "another piece of memory");
        assert_eq!(told.telling(PAIR, &met(&clock, 2, 0), Some(128)), Telling::InFull, "another block of the heap");
        assert_eq!(
            told.telling((1, 3, Kind::Accesses, false), &met(&clock, 0, 0), None),
            Telling::InFull,
            "other instructions"
        );
        let words = told.take(true);
        let records: Vec<_> = words.chunks(5).collect();
        assert!(records.iter().all(|record| record[..3] == [tag::MORE, 3, 0]));
        let bytes: u32 = records.iter().map(|record| record[4].count_ones()).sum();
        assert_eq!(bytes, 3 * 64 - FOR_A_PIECE);
        assert!(
            told.telling(PAIR, &met(&clock, 2, 63), None) == Telling::NotAtAll && told.take(true).is_empty(),
            "told once"
        );
    }

    #[test]
    fn the_findings_have_a_bound() {
        let clocks = Clocks::new(16);
        assert_eq!(clocks.start(0), Ok(()));
        let clock = clocks.current(0).clone();
        let mut told = Told::default();
        let far = 10 * FOR_A_PAIR as u64;
        (0..far).for_each(|line| told.watch(line * 64..line * 64 + 1));
        let full = (0..far).filter(|&line| told.telling(PAIR, &met(&clock, line, 0), None) == Telling::InFull).count();
        assert_eq!(full, FOR_A_PAIR);
    }
}
