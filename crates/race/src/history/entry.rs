//! What a line remembers of one segment, and what a later one does to it.
//!
//! Apart from where entries are stored: a line's only entry and the entries of a
//! list go by the same rule.

use crate::clock::Clock;
use crate::epoch::{Epoch, FREE};
use crate::finding::{Kind, Race};

/// A segment's bytes in one line. As a slot of a page it can also be empty, or say
/// where the line's list is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Bits of an [`Epoch`], with [`FREE`] set if `written` was freed; [`EMPTY`] or [`SPILLED`] in a slot.
    stamp: u64,
    /// Bytes that were read and not written.
    pub(super) read: u64,
    pub(super) written: u64,
}

/// No epoch, because times begin at 1.
const EMPTY: u64 = 0;
/// No epoch, because threads are numbered below the largest number.
const SPILLED: u64 = u64::MAX;

impl Entry {
    pub(super) const EMPTY: Self = Self { stamp: EMPTY, read: 0, written: 0 };

    pub(super) fn access(epoch: Epoch, read: u64, written: u64) -> Self {
        Self { stamp: epoch.bits(), read: read & !written, written }
    }

    pub(super) fn free(epoch: Epoch, freed: u64) -> Self {
        Self { stamp: epoch.bits() | FREE, read: 0, written: freed }
    }

    /// A slot whose line has a list; the other words say where.
    pub(super) fn spilled(place: u64, length: usize) -> Self {
        Self { stamp: SPILLED, read: place, written: length as u64 }
    }

    /// The place and length that [`Entry::spilled`] was given.
    pub(super) fn list(&self) -> (u64, usize) {
        (self.read, self.written as usize)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.stamp == EMPTY
    }

    pub(super) fn is_spilled(&self) -> bool {
        self.stamp == SPILLED
    }

    pub(super) fn is_free(&self) -> bool {
        self.stamp & FREE != 0
    }

    pub(super) fn epoch(&self) -> Epoch {
        Epoch::from_bits(self.stamp)
    }

    /// Whether nothing is left of it.
    pub(super) fn is_gone(&self) -> bool {
        self.read | self.written == 0
    }

    /// Forgets bytes.
    pub(super) fn forget(&mut self, bytes: u64) {
        self.read &= !bytes;
        self.written &= !bytes;
    }

    /// Takes in what another entry holds of the same segment. `false` if it is of another one.
    pub(super) fn absorb(&mut self, older: &Entry) -> bool {
        if self.stamp != older.stamp {
            return false;
        }
        self.written |= older.written;
        self.read = (self.read | older.read) & !self.written;
        true
    }

    /// Holds `newer`, whose clock is given, against this entry, then takes off what it covers: of what happened
    /// before, a write covers all and a read covers reads. Freed bytes stay freed, only another free covers them.
    #[inline]
    pub(super) fn meet(&mut self, newer: &Entry, clock: &Clock, line: u64, report: &mut impl FnMut(Race)) {
        if (self.read | self.written) & (newer.read | newer.written) == 0 {
            return;
        }
        let known = clock.knows(self.epoch());
        if !known || self.is_free() {
            self.compare(newer, known, line, report);
            if !known || !newer.is_free() {
                return;
            }
        }
        self.read &= !(newer.read | newer.written);
        self.written &= !newer.written;
    }

    #[cold]
    fn compare(&self, newer: &Entry, known: bool, line: u64, report: &mut impl FnMut(Race)) {
        let race = Race {
            line,
            kind: Kind::of(self.is_free(), newer.is_free(), known),
            older: self.epoch(),
            newer: newer.epoch(),
            write_write: self.written & newer.written,
            read_write: self.read & newer.written,
            write_read: self.written & newer.read,
        };
        if race.bytes() != 0 {
            report(race);
        }
    }
}
