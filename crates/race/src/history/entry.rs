//! What a line remembers of one segment, and what a later one does to it.
//!
//! Apart from where entries are: those of a cell and those of a list go by the same
//! rule.

use crate::clock::Clock;
use crate::epoch::{Epoch, FREE};
use crate::finding::{Kind, Race};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// A segment's bytes in one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Bits of an [`Epoch`], with [`FREE`] set if `written` was freed.
    stamp: u64,
    /// Bytes that were read and not written.
    pub(super) read: u64,
    pub(super) written: u64,
}

/// Where an entry is stored. It is read and written under the lock of its line's cell.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Slot {
    stamp: AtomicU64,
    read: AtomicU64,
    written: AtomicU64,
}

impl Slot {
    #[inline]
    pub(super) fn load(&self) -> Entry {
        Entry { stamp: self.stamp.load(Relaxed), read: self.read.load(Relaxed), written: self.written.load(Relaxed) }
    }

    #[inline]
    pub(super) fn store(&self, entry: Entry) {
        self.stamp.store(entry.stamp, Relaxed);
        self.read.store(entry.read, Relaxed);
        self.written.store(entry.written, Relaxed);
    }

    /// What [`Slot::store_word`] left.
    pub(super) fn load_word(&self) -> u64 {
        self.stamp.load(Relaxed)
    }

    /// Keeps a number in place of an entry.
    pub(super) fn store_word(&self, word: u64) {
        self.stamp.store(word, Relaxed);
    }
}

impl Entry {
    pub(super) fn access(epoch: Epoch, read: u64, written: u64) -> Self {
        Self { stamp: epoch.bits(), read: read & !written, written }
    }

    pub(super) fn free(epoch: Epoch, freed: u64) -> Self {
        Self { stamp: epoch.bits() | FREE, read: 0, written: freed }
    }

    pub(super) fn is_free(self) -> bool {
        self.stamp & FREE != 0
    }

    #[inline]
    pub(super) fn epoch(self) -> Epoch {
        Epoch::from_bits(self.stamp)
    }

    /// Whether a later access leaves nothing of it. Freed bytes stay freed.
    #[inline]
    pub(super) fn is_covered_by(self, newer: Self) -> bool {
        !self.is_free() && self.read & !(newer.read | newer.written) == 0 && self.written & !newer.written == 0
    }

    /// Whether there may be anything to say about it and another thread's access: one of them writes what the other
    /// touches, or the block is given back.
    #[inline]
    pub(super) fn concerns(self, newer: Self) -> bool {
        self.is_free() || self.written & (newer.read | newer.written) | self.read & newer.written != 0
    }

    /// Whether nothing is left of it.
    #[inline]
    pub(super) fn is_gone(self) -> bool {
        self.read | self.written == 0
    }

    /// Forgets bytes.
    pub(super) fn forget(&mut self, bytes: u64) {
        self.read &= !bytes;
        self.written &= !bytes;
    }

    /// Whether it is of the same segment, and of the same kind.
    #[inline]
    pub(super) fn is_of_same(self, other: Self) -> bool {
        self.stamp == other.stamp
    }

    /// It with what another entry holds of the same segment.
    #[inline]
    pub(super) fn with(self, older: Self) -> Self {
        let written = self.written | older.written;
        Self { read: (self.read | older.read) & !written, written, ..self }
    }

    /// Holds `newer`, whose clock is given, against this entry; what is left of it where the newer one covers some: of
    /// what happened before, a write covers all and a read covers reads. Freed bytes stay freed, only another free covers
    /// them.
    #[inline]
    pub(super) fn meet(self, newer: Self, clock: &Clock, line: u64, report: &mut impl FnMut(Race)) -> Self {
        if (self.read | self.written) & (newer.read | newer.written) == 0 {
            return self;
        }
        let known = clock.knows(self.epoch());
        if !known || self.is_free() {
            if self.written & (newer.read | newer.written) | self.read & newer.written != 0 {
                self.compare(newer, known, line, report);
            }
            if !known || !newer.is_free() {
                return self;
            }
        }
        let read = self.read & !(newer.read | newer.written);
        Self { read, written: self.written & !newer.written, ..self }
    }

    #[cold]
    fn compare(self, newer: Self, known: bool, line: u64, report: &mut impl FnMut(Race)) {
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
