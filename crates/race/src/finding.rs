//! What the history reports.
//!
//! Apart from the history because the runtime, which hands findings on, needs no more.

use crate::epoch::Epoch;

/// Two segments that touched the same bytes of a line and should not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Race {
    /// The line's address divided by 64.
    pub line: u64,
    /// What kind of fault it is.
    pub kind: Kind,
    /// The segment that was remembered.
    pub older: Epoch,
    /// The segment that was checked.
    pub newer: Epoch,
    /// The bytes that both wrote. A free is a write.
    pub write_write: u64,
    /// The bytes that the older one read and the newer one wrote.
    pub read_write: u64,
    /// The bytes that the older one wrote and the newer one read.
    pub write_read: u64,
}

impl Race {
    /// All bytes concerned: bit `i` stands for byte `i` of the line.
    pub fn bytes(&self) -> u64 {
        self.write_write | self.read_write | self.write_read
    }
}

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Two unordered accesses.
    Accesses,
    /// The newer one is a free, unordered with the older access.
    Free,
    /// The older one is a free, unordered with the newer access.
    Freed,
    /// Two unordered frees.
    Frees,
    /// The newer access comes after the free, by the order of the execution: no race, but a fault.
    UseAfterFree,
    /// A free that comes after a free.
    DoubleFree,
}

impl Kind {
    /// By which of the two is a free, and whether the older one happened before the newer one.
    pub(crate) fn of(older_is_free: bool, newer_is_free: bool, ordered: bool) -> Self {
        match (older_is_free, newer_is_free, ordered) {
            (false, false, _) => Kind::Accesses,
            (false, true, _) => Kind::Free,
            (true, false, false) => Kind::Freed,
            (true, true, false) => Kind::Frees,
            (true, false, true) => Kind::UseAfterFree,
            (true, true, true) => Kind::DoubleFree,
        }
    }

    /// Whether nothing orders the two: a race.
    pub fn is_race(self) -> bool {
        !matches!(self, Kind::UseAfterFree | Kind::DoubleFree)
    }
}
