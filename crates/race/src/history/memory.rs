//! The memory of a history: whose each cell is, and who is behind it.
//!
//! Apart from the cells because here stands how a line finds its own.

use super::cell::{Cell, Held};
use super::entry::{Entry, Slot};
use super::lists::LISTS_WORDS;
use super::untouched::Untouched;
use crate::epoch::Epoch;
use crate::lines::PAGE_LINES;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU64, fence};

/// What the history asks of the process.
pub trait Host {
    /// This will be looked at, and written, soon.
    fn prefetch<T>(&self, place: &T) {
        let _ = place;
    }

    /// Another thread holds what is wanted, as it did when this was called `times` times before.
    fn pause(&self, times: u32);
}

/// Where a history lies: all of it zero when the history is made.
///
/// Only what is touched is needed: of the cells as much as the program touches, and rather more are better.
#[derive(Clone, Copy, Debug)]
pub struct Memory<'m> {
    /// A power of two, 64 at least; more than the program has lines.
    pub cells: &'m [Cell],
    /// A bit for each 64 cells.
    pub used: &'m [AtomicU64],
    /// What all running threads know of each; as many as there are ever threads, or what is known of the others stays
    /// unknown.
    pub floor: &'m [AtomicU64],
    /// Entries of lines with many of them.
    pub lists: &'m [Slot],
    /// The state of the lists, and whether lines met in a cell.
    pub state: &'m [AtomicU64; STATE_WORDS],
}

/// Words of the state: whether a line is not at home, and the lists'.
pub const STATE_WORDS: usize = 1 + LISTS_WORDS;
pub(super) const AWAY: usize = 0;

/// From a page of cells to where its lines look next: odd, so that they come to all others.
const FURTHER: u64 = 0x9E_3779_B97F;

impl<'m> Memory<'m> {
    /// The words that a number of cells needs for `used`.
    pub const fn used_words(cells: usize) -> usize {
        cells.div_ceil(PAGE_LINES as usize * 64)
    }

    pub(super) fn assert_fits(&self) {
        let cells = self.cells.len();
        assert!(cells.is_power_of_two() && cells as u64 >= PAGE_LINES, "the number of cells is no power of two");
        assert!(self.used.len() >= Self::used_words(cells), "each page of cells has a bit");
    }

    fn index(&self, line: u64, attempt: u64) -> usize {
        let further = attempt.wrapping_mul(FURTHER).wrapping_mul(PAGE_LINES);
        line.wrapping_add(further) as usize & (self.cells.len() - 1)
    }

    /// The cell that a line looks at first.
    #[inline]
    pub(super) fn home(&self, line: u64) -> &'m Cell {
        &self.cells[line as usize & (self.cells.len() - 1)]
    }

    /// The line's cell. One that belongs to none becomes its own, and remembers who freed it `untouched`.
    #[inline]
    pub(super) fn claim(&self, line: u64, untouched: &Untouched, host: &impl Host) -> Held<'m> {
        let cell = self.home(line).lock(host);
        if cell.line() == Some(line) { cell } else { self.look_further(line, cell, untouched, host) }
    }

    #[cold]
    fn look_further(&self, line: u64, home: Held<'m>, untouched: &Untouched, host: &impl Host) -> Held<'m> {
        let (mut cell, mut attempt) = (home, 0);
        loop {
            match cell.line() {
                None => {
                    cell.set_line(line);
                    self.note(self.index(line, attempt), attempt != 0);
                    fence(SeqCst);
                    if let Some(by) = untouched.of(line) {
                        cell.inline(0).store(Entry::free(by, u64::MAX));
                        cell.set_count(1);
                    }
                    return cell;
                }
                Some(owner) if owner == line => return cell,
                Some(_) => {
                    attempt += 1;
                    assert!(attempt * PAGE_LINES <= self.cells.len() as u64, "the program has more lines than cells");
                    drop(cell);
                    cell = self.cells[self.index(line, attempt)].lock(host);
                }
            }
        }
    }

    /// The line's cell, if it has one.
    pub(super) fn find(&self, line: u64, host: &impl Host) -> Option<Held<'m>> {
        for attempt in 0..=self.cells.len() as u64 / PAGE_LINES {
            let cell = self.cells[self.index(line, attempt)].lock(host);
            match cell.line() {
                Some(owner) if owner == line => return Some(cell),
                Some(_) => {}
                None => return None,
            }
        }
        None
    }

    /// A cell got an owner, which may not be at home there.
    fn note(&self, index: usize, away: bool) {
        let page = index / PAGE_LINES as usize;
        let (word, bit) = (&self.used[page / 64], 1 << (page % 64));
        if word.load(Relaxed) & bit == 0 {
            word.fetch_or(bit, Relaxed);
        }
        if away {
            self.state[AWAY].store(1, Relaxed);
        }
    }

    /// Whether all lines with a cell are at home.
    pub(super) fn all_at_home(&self) -> bool {
        self.state[AWAY].load(Relaxed) == 0
    }

    /// Whether a line of this one's page may have a cell: where it is not at home, another line is there.
    pub(super) fn has_page(&self, line: u64) -> bool {
        let page = self.index(line, 0) / PAGE_LINES as usize;
        self.used[page / 64].load(Relaxed) >> (page % 64) & 1 != 0
    }

    /// Each page that has cells.
    pub(super) fn used_pages(&self) -> impl Iterator<Item = &'m [Cell]> {
        let words = self.used.iter().enumerate().filter(|(_, word)| word.load(Relaxed) != 0);
        let pages = words.flat_map(|(number, word)| {
            let bits = word.load(Relaxed);
            (0..64).filter(move |bit| bits >> bit & 1 != 0).map(move |bit| number * 64 + bit)
        });
        let lines = PAGE_LINES as usize;
        let cells = self.cells;
        pages.map(move |page| &cells[page * lines..(page + 1) * lines])
    }

    /// Bytes of the pages that have cells.
    pub(super) fn used_bytes(&self) -> usize {
        self.used_pages().map(size_of_val).sum()
    }

    /// Whether all running threads know a segment.
    #[inline]
    pub(super) fn all_know(&self, epoch: Epoch) -> bool {
        self.floor.get(epoch.thread() as usize).is_some_and(|known| epoch.time() <= known.load(Relaxed))
    }
}
