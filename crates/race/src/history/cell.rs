//! A line's place in the memory of the history.
//!
//! Eight words, a line of the cache: a word with the lock, the number of entries and
//! where their list is; the line's number, with what `lasting.rs` wants to know of it;
//! two entries.
//!
//! Apart from what is done with entries because here stands how threads keep out of
//! each other's way: a cell is looked at by who holds its lock, and its memory needs no
//! more than to be zero at first.

use super::entry::{Entry, Slot};
use super::lists::List;
use super::memory::Host;
use crate::epoch::Epoch;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Entries that stand in the cell.
pub(super) const INLINE: usize = 2;

/// What a history remembers of one line. All zero: nothing.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Cell {
    /// The lock, the number of entries, and the list.
    head: AtomicU64,
    /// The line's number plus one, once there was one; whether any reads of it last, and how often it was written.
    line: AtomicU64,
    entries: [Slot; INLINE],
}

/// The head while somebody looks at the cell, who has what was there; otherwise this bit is not set.
const LOCKED: u64 = 1;
const COUNT_SHIFT: u32 = 1;
const COUNT_BITS: u32 = 23;
const LIST_SHIFT: u32 = COUNT_SHIFT + COUNT_BITS;

/// Of the word with the line.
const LINE_BITS: u32 = 59;
const LASTING: u64 = 1 << LINE_BITS;
/// The lowest of the bits that count writes, which may run over.
const WRITE: u64 = LASTING << 1;

/// A cell whose lock is held; it is given back when this goes.
#[derive(Debug)]
pub(super) struct Held<'m> {
    cell: &'m Cell,
    head: u64,
}

impl Cell {
    /// Waits for the cell.
    #[inline]
    pub(super) fn lock(&self, host: &impl Host) -> Held<'_> {
        let head = self.head.swap(LOCKED, Acquire);
        if head == LOCKED { self.wait(host) } else { Held { cell: self, head } }
    }

    /// The list that it has at this moment, if nobody looks at it: it may have another one at the next.
    #[inline]
    pub(super) fn list_now(&self) -> Option<List> {
        let head = self.head.load(Relaxed);
        if head == LOCKED { None } else { List::unpack(head >> LIST_SHIFT) }
    }

    #[cold]
    fn wait(&self, host: &impl Host) -> Held<'_> {
        let mut times = 0;
        loop {
            host.pause(times);
            times += 1;
            if self.head.load(Relaxed) == LOCKED {
                continue;
            }
            let head = self.head.swap(LOCKED, Acquire);
            if head != LOCKED {
                return Held { cell: self, head };
            }
        }
    }
}

impl<'m> Held<'m> {
    /// The line that the cell belongs to, if there is one yet.
    #[inline]
    pub(super) fn line(&self) -> Option<u64> {
        (self.cell.line.load(Relaxed) & (LASTING - 1)).checked_sub(1)
    }

    /// The cell belongs to this line from now on.
    pub(super) fn set_line(&mut self, line: u64) {
        self.cell.line.store(line + 1, Relaxed);
    }

    /// How often the line was written, modulo some power of two.
    #[inline]
    pub(super) fn writes(&self) -> u32 {
        (self.cell.line.load(Relaxed) / WRITE) as u32
    }

    /// It is written once more. Whether any reads of it last.
    #[inline]
    pub(super) fn note_write(&mut self) -> bool {
        let word = self.cell.line.load(Relaxed);
        self.cell.line.store(word.wrapping_add(WRITE), Relaxed);
        word & LASTING != 0
    }

    /// Whether any reads of it last.
    pub(super) fn is_lasting(&self) -> bool {
        self.cell.line.load(Relaxed) & LASTING != 0
    }

    pub(super) fn set_lasting(&mut self, lasting: bool) {
        let word = self.cell.line.load(Relaxed) & !LASTING;
        self.cell.line.store(if lasting { word | LASTING } else { word }, Relaxed);
    }

    /// How many entries the line has.
    #[inline]
    pub(super) fn count(&self) -> usize {
        (self.head >> COUNT_SHIFT) as usize & ((1 << COUNT_BITS) - 1)
    }

    #[inline]
    pub(super) fn set_count(&mut self, count: usize) {
        // Threads are fewer, and a line has 64 bytes.
        assert!(count < 1 << COUNT_BITS, "a line has an entry for each thread and byte at most");
        self.head = self.head >> LIST_SHIFT << LIST_SHIFT | (count as u64) << COUNT_SHIFT;
    }

    /// Remembers an access where that is simple: all entries are in the cell, and one `ends`, or there is room. Those that
    /// do not end are not in conflict with it, or it `knows` their segments. They may stay, although they may be covered,
    /// too: whoever races with what is covered races with this one.
    #[inline]
    pub(super) fn replace(
        &mut self,
        newer: Entry,
        ends: impl Fn(Entry) -> bool,
        knows: impl Fn(Epoch) -> bool,
    ) -> bool {
        let [first, second] = &self.cell.entries;
        let is_past = |old: Entry| !old.is_free() && knows(old.epoch());
        let stays = |old: Entry| !old.is_of_same(newer) && (!old.concerns(newer) || is_past(old));
        match self.count() {
            0 => {
                first.store(newer);
                self.set_count(1);
            }
            1 => {
                let old = first.load();
                if ends(old) {
                    first.store(newer);
                } else if stays(old) {
                    second.store(newer);
                    self.set_count(2);
                } else {
                    return false;
                }
            }
            2 => {
                let (one, two) = (first.load(), second.load());
                match (ends(one), ends(two)) {
                    // A list goes back with the second entry.
                    (true, true) if self.list().is_none() => {
                        first.store(newer);
                        self.set_count(1);
                    }
                    (true, false) if stays(two) => first.store(newer),
                    (false, true) if stays(one) => second.store(newer),
                    _ => return false,
                }
            }
            _ => return false,
        }
        true
    }

    /// The list of the entries that are not in the cell.
    #[inline]
    pub(super) fn list(&self) -> Option<List> {
        List::unpack(self.head >> LIST_SHIFT)
    }

    pub(super) fn set_list(&mut self, list: Option<List>) {
        self.head = self.head & ((1 << LIST_SHIFT) - 1) | list.map_or(0, List::pack) << LIST_SHIFT;
    }

    #[inline]
    pub(super) fn inline(&self, index: usize) -> &'m Slot {
        &self.cell.entries[index]
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        self.cell.head.store(self.head, Release);
    }
}

const _: () = assert!(size_of::<Cell>() == 64 && LIST_SHIFT + List::BITS <= u64::BITS);
