//! Which lines must not pass by their shadow: watched ones, and those that share an
//! index with other memory of the process.
//!
//! A check passes when the bits of a line are set, so it is enough never to set them:
//! each access to such a line comes to the slow path. That asks here, by a filter
//! that emitted code can read, then exactly.
//!
//! *Shared indices.* Lines of one index are 64 GiB apart. Each place of four megabytes
//! in the window belongs to the memory that was mapped there first; where other memory
//! with the same place comes, the place is contested, and its lines are logged with
//! their bytes in place of by their shadow. Bits that were set before could hide an
//! access to what came later. So the host tells of each mapping before the program
//! can touch it ([`Tables::cover`]), and ends the calling thread's segment if that
//! makes a place contested.
//!
//! Other threads keep their bits until their own segments end. They can come to the
//! new memory before that only by an address that they read in a race with its giver.

use crate::layout::{LINE_BITS, WINDOW_BITS};
use core::ops::Range;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

/// Bytes of a place, as a power of two.
pub(crate) const PLACE_BITS: u32 = 22;
const PLACES: usize = 1 << (WINDOW_BITS - PLACE_BITS);
/// Bits of the filter, as a power of two.
pub(crate) const FILTER_BITS: u32 = 17;
/// Near 2^64 divided by the golden ratio (Knuth, *The Art of Computer Programming* 3, 6.4).
pub(crate) const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
/// Of a place: two kinds of memory have it.
const CONTESTED: u16 = u16::MAX;
/// Of the set of watched lines: no line.
const FREE: u64 = 0;

/// What the threads of a process share. It belongs to one [`Accesses`](crate::Accesses), for good.
pub struct Tables {
    /// [`SOME_WATCHED`] and [`SOME_CONTESTED`].
    special: AtomicU32,
    /// How often a line was watched or a place became contested.
    changes: AtomicU32,
    /// Who has a place: the upper bits of the address, plus one.
    owners: [AtomicU16; PLACES],
    contested: [AtomicU64; PLACES / 64],
    filter: [AtomicU64; 1 << (FILTER_BITS - 6)],
    /// Mnemonics whose bytes nobody can tell, each above the count of its executions.
    pub(crate) unknown: [AtomicU64; UNKNOWN],
}

/// Lines are watched.
pub(crate) const SOME_WATCHED: u8 = 1;
/// Places are contested.
pub(crate) const SOME_CONTESTED: u8 = 2;
/// Mnemonics that can be counted.
const UNKNOWN: usize = 64;
/// Bits of a count.
pub(crate) const COUNT_BITS: u32 = 48;

impl Default for Tables {
    fn default() -> Self {
        Self::new()
    }
}

impl Tables {
    /// Tables of a process that has nothing mapped and watches nothing: 50 KiB, for a static or the heap.
    #[allow(clippy::large_stack_arrays)] // They are made by the compiler, or moved by it to where they stay.
    pub const fn new() -> Self {
        Self {
            special: AtomicU32::new(0),
            changes: AtomicU32::new(0),
            owners: [const { AtomicU16::new(0) }; PLACES],
            contested: [const { AtomicU64::new(0) }; PLACES / 64],
            filter: [const { AtomicU64::new(0) }; 1 << (FILTER_BITS - 6)],
            unknown: [const { AtomicU64::new(0) }; UNKNOWN],
        }
    }

    /// Where emitted code reads whether anything is special, the filter, and the contested places.
    pub(crate) fn addresses(&self) -> [u64; 3] {
        let places = [self.special.as_ptr().addr(), self.filter.as_ptr().addr(), self.contested.as_ptr().addr()];
        places.map(|address| address as u64)
    }

    /// Memory is mapped in this range of addresses, and nothing in it has been accessed. `true` if it shares indices with
    /// other memory, so that the calling thread's segment must end now.
    ///
    /// A range larger than the window is passed over: it is address space that is reserved for parts of it to be used. Those
    /// may be covered when they are; what nobody covers is claimed when a segment that touched it is taken.
    pub fn cover(&self, range: &Range<u64>) -> bool {
        if range.end - range.start > 1 << WINDOW_BITS {
            return false;
        }
        let mut shared = false;
        for place in range.start >> PLACE_BITS..range.end.div_ceil(1 << PLACE_BITS) {
            shared |= self.claim(place << PLACE_BITS);
        }
        shared
    }

    /// Whether `address` is in a contested place that was not one before.
    pub(crate) fn claim(&self, address: u64) -> bool {
        let place = place_of(address);
        let owner = (address >> WINDOW_BITS) as u16 + 1;
        if self.owners[place].load(Relaxed) == owner {
            return false;
        }
        match self.owners[place].compare_exchange(0, owner, Relaxed, Relaxed) {
            Err(other) if other != owner && other != CONTESTED => {
                self.owners[place].store(CONTESTED, Relaxed);
                self.contested[place / 64].fetch_or(1 << (place % 64), Relaxed);
                self.change(SOME_CONTESTED);
                true
            }
            _ => false,
        }
    }

    fn change(&self, what: u8) {
        self.special.fetch_or(what.into(), Release);
        self.changes.fetch_add(1, Release);
    }

    /// Whether no other memory shares the bits of the line `number`.
    pub fn may_keep(&self, number: u64) -> bool {
        !self.is_contested(number << LINE_BITS)
    }

    /// How often what is plain changed.
    pub fn changes(&self) -> u64 {
        self.changes.load(Acquire).into()
    }

    /// Whether the line with `address` shares its index with others.
    pub(crate) fn is_contested(&self, address: u64) -> bool {
        let place = place_of(address);
        self.contested[place / 64].load(Relaxed) >> (place % 64) & 1 != 0
    }

    /// Counts an execution of an instruction whose bytes nobody can tell.
    pub(crate) fn count_unknown(&self, mnemonic: u16) {
        let new = u64::from(mnemonic) << COUNT_BITS;
        let is_mine = |entry: u64| entry == 0 || entry >> COUNT_BITS == u64::from(mnemonic);
        for place in &self.unknown {
            let counted = place.fetch_update(Relaxed, Relaxed, |entry| {
                is_mine(entry).then(|| if entry == 0 { new + 1 } else { entry + 1 })
            });
            if counted.is_ok() {
                return;
            }
        }
    }

    /// Lets the line `number` through the filter.
    pub(crate) fn admit(&self, number: u64) {
        let bit = filter_bit(number);
        self.filter[bit / 64].fetch_or(1 << (bit % 64), Relaxed);
        self.change(SOME_WATCHED);
    }

    /// Whether the line may be watched.
    pub(crate) fn may_be_watched(&self, number: u64) -> bool {
        let bit = filter_bit(number);
        self.special.load(Acquire) & u32::from(SOME_WATCHED) != 0
            && self.filter[bit / 64].load(Relaxed) >> (bit % 64) & 1 != 0
    }
}

fn place_of(address: u64) -> usize {
    (address >> PLACE_BITS) as usize % PLACES
}

fn filter_bit(number: u64) -> usize {
    (number.wrapping_mul(SPREAD) >> (64 - FILTER_BITS)) as usize
}

/// The lines that are watched: a set of line numbers in the caller's memory.
///
/// Open addressing. A line, once in, stays; who looks needs no lock.
pub(crate) struct Watched<'t>(pub(crate) &'t [AtomicU64]);

/// There is no room for another watched line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Watched<'_> {
    fn places(&self, number: u64) -> impl Iterator<Item = &AtomicU64> {
        let first = number.wrapping_mul(SPREAD) >> 20;
        (0..self.0.len()).map(move |n| &self.0[(first as usize + n) % self.0.len()])
    }

    /// Puts a line in. Line 0 is nobody's.
    pub(crate) fn insert(&self, number: u64) -> Result<(), Full> {
        for place in self.places(number) {
            match place.compare_exchange(FREE, number, Relaxed, Relaxed) {
                Ok(_) => return Ok(()),
                Err(there) if there == number => return Ok(()),
                Err(_) => {}
            }
        }
        Err(Full)
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        let mut used = self.places(number).map(|place| place.load(Relaxed)).take_while(|&there| there != FREE);
        used.any(|there| there == number)
    }
}

const _: () = assert!(LINE_BITS < PLACE_BITS && PLACES.is_multiple_of(64));

#[cfg(test)]
mod tests {
    use super::{Full, Tables, Watched};
    use core::sync::atomic::AtomicU64;

    #[test]
    fn memory_in_the_same_place_of_another_window_contests_it() {
        let tables = Tables::new();
        let (low, high) = (0x5555_5555_4000, 0x7FF5_5555_4000);
        assert!(!tables.cover(&(low..low + 0x10_0000)));
        assert!(!tables.cover(&(low + 0x1000..low + 0x20_0000)), "the same once more");
        assert!(!tables.is_contested(low));
        assert!(!tables.cover(&(high + (4 << 22)..high + (5 << 22))), "far enough away");
        assert!(tables.cover(&(high..high + 1)));
        assert!(tables.is_contested(low) && tables.is_contested(high) && !tables.is_contested(low + (1 << 22)));
        assert!(!tables.cover(&(high..high + 1)), "it is contested already");
    }

    #[test]
    fn watched_lines_are_found_and_others_not() {
        let places = [const { AtomicU64::new(0) }; 8];
        let (tables, watched) = (Tables::new(), Watched(&places));
        for number in 1..=8 {
            assert!(!watched.contains(number) && !tables.may_be_watched(number));
            assert_eq!(watched.insert(number), Ok(()));
            tables.admit(number);
        }
        assert!((1..=8).all(|number| watched.contains(number) && tables.may_be_watched(number)));
        assert_eq!((watched.insert(8), watched.insert(9)), (Ok(()), Err(Full)));
        assert!(!watched.contains(9));
    }
}
