//! Happened-before as reachability, and all pairs of conflicting accesses.

use super::execution::{Event, What};
use std::collections::BTreeSet;
use std::ops::Range;
use std::vec;
use std::vec::Vec;

/// Which events happened before which.
pub(super) struct Oracle<'a> {
    events: &'a [Event],
    before: Vec<Vec<bool>>,
}

/// How an event touches memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touch {
    Read,
    Write,
    Free,
}

/// The memory that an event touches.
pub(super) fn touched(event: &Event) -> Option<(Touch, &Range<u64>)> {
    match &event.what {
        What::Read(range) => Some((Touch::Read, range)),
        What::Write(range) => Some((Touch::Write, range)),
        What::Free(range) => Some((Touch::Free, range)),
        _ => None,
    }
}

/// Whether an edge leads from an earlier event to a later one, were there nothing between them.
fn edge(earlier: &Event, later: &Event) -> bool {
    if earlier.thread == later.thread {
        return true;
    }
    match (&earlier.what, &later.what) {
        (What::Create(child), _) => *child == later.thread,
        (What::End, What::Join(other)) => *other == earlier.thread,
        (What::Unlock(a), What::Lock(b))
        | (What::WriteUnlock(a), What::ReadLock(b) | What::WriteLock(b))
        | (What::ReadUnlock(a), What::WriteLock(b))
        | (What::Post(a), What::Wait(b))
        | (What::Store(a) | What::Swap(a), What::Load(b) | What::Swap(b)) => a == b,
        (What::Arrive(a, arrived), What::Depart(b, departed)) => a == b && arrived == departed,
        _ => false,
    }
}

/// Whether a store between the two hides what the earlier one left.
fn hidden(events: &[Event], earlier: usize, later: usize) -> bool {
    let (What::Store(key) | What::Swap(key)) = events[earlier].what else { return false };
    events[earlier].thread != events[later].thread
        && events[earlier + 1..later].iter().any(|event| event.what == What::Store(key))
}

impl<'a> Oracle<'a> {
    pub(super) fn new(events: &'a [Event]) -> Self {
        let mut before: Vec<Vec<bool>> = Vec::new();
        for later in 0..events.len() {
            let mut row = vec![false; events.len()];
            for earlier in 0..later {
                if edge(&events[earlier], &events[later]) && !hidden(events, earlier, later) {
                    row[earlier] = true;
                    for (all, more) in row.iter_mut().zip(&before[earlier]) {
                        *all |= more;
                    }
                }
            }
            before.push(row);
        }
        Self { events, before }
    }

    /// Whether the earlier event happened before the later one.
    pub(super) fn ordered(&self, earlier: usize, later: usize) -> bool {
        self.before[later][earlier]
    }

    /// All pairs of accesses to a byte, between which it was not made fresh, that are `wanted`.
    pub(super) fn pairs(
        &self,
        wanted: impl Fn(usize, Touch, usize, Touch, u64) -> bool,
    ) -> BTreeSet<(usize, usize, u64)> {
        let mut found = BTreeSet::new();
        for later in 0..self.events.len() {
            let Some((newer, range)) = touched(&self.events[later]) else { continue };
            for byte in range.clone() {
                for earlier in (0..later).rev() {
                    if matches!(&self.events[earlier].what, What::Fresh(range) if range.contains(&byte)) {
                        break;
                    }
                    if let Some((older, range)) = touched(&self.events[earlier])
                        && range.contains(&byte)
                        && wanted(earlier, older, later, newer, byte)
                    {
                        found.insert((earlier, later, byte));
                    }
                }
            }
        }
        found
    }

    fn bytes(&self, wanted: impl Fn(usize, Touch, usize, Touch, u64) -> bool) -> BTreeSet<u64> {
        self.pairs(wanted).into_iter().map(|(_, _, byte)| byte).collect()
    }

    /// All racing bytes.
    pub(super) fn racing(&self) -> BTreeSet<u64> {
        self.bytes(|earlier, older, later, newer, _| {
            (older != Touch::Read || newer != Touch::Read) && !self.ordered(earlier, later)
        })
    }

    /// All bytes used, or freed again, after the last free that they know of.
    pub(super) fn after_free(&self, again: Touch) -> BTreeSet<u64> {
        self.bytes(|earlier, older, later, newer, byte| {
            older == Touch::Free
                && (newer == Touch::Free) == (again == Touch::Free)
                && self.ordered(earlier, later)
                && !self.freed_between(earlier, later, byte)
        })
    }

    /// Whether another free of the byte follows the first one by its own order: then that one is what is remembered.
    fn freed_between(&self, first: usize, last: usize, byte: u64) -> bool {
        (first + 1..last).any(|at| {
            self.ordered(first, at) && matches!(&self.events[at].what, What::Free(range) if range.contains(&byte))
        })
    }
}
