//! Synchronisation variables: bytes that a program orders its threads by, without
//! calling anybody.
//!
//! On x86-64 an atomic load is a plain move, and so is a store that releases. That
//! such a byte is meant for synchronisation is seen only from locked instructions
//! that touch it, somewhere in the run. An access to it then orders: a load acquires,
//! a store releases, a locked instruction does both.
//!
//! A store accumulates here and hides nothing ([`Clocks::release`]): variables that
//! were touched at overlapping places are one, and a store to one part must not hide
//! what was released at another. That can only add order: what is reported stays true.
//!
//! Apart from the clocks because the set is known before the replay that uses it.

use crate::clock::Clock;
use crate::clocks::Clocks;
use crate::lines::LINE;
use alloc::collections::BTreeMap;
use core::ops::Range;

/// A set of byte ranges, each one variable. An object's key in [`Clocks`] is its first address.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    /// Ends by starts; ranges do not overlap.
    ranges: BTreeMap<u64, u64>,
}

impl Variables {
    /// No variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// A locked instruction touched a range. What it overlaps with becomes one variable with it.
    pub fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        while let Some((&first, &last)) = self.ranges.range(..end).next_back()
            && last > start
        {
            self.ranges.remove(&first);
            (start, end) = (start.min(first), end.max(last));
        }
        self.ranges.insert(start, end);
    }

    /// How many variables there are.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The variables, by ascending address.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.ranges.iter().map(|(&start, &end)| start..end)
    }

    /// The variables that a range overlaps with.
    pub fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let first = self.ranges.range(..=range.start).next_back().map_or(range.start, |(&start, _)| start);
        let all = self.ranges.range(first..range.end.max(first)).map(|(&start, &end)| start..end);
        all.filter(move |variable| !range.is_empty() && variable.end > range.start)
    }

    /// Which bytes of a line belong to variables.
    pub fn bytes_of(&self, line: u64) -> u64 {
        let start = line.saturating_mul(LINE);
        let parts = self.overlapping(start..start.saturating_add(LINE));
        parts.fold(0, |bytes, variable| {
            let first = variable.start.saturating_sub(start);
            let last = (variable.end - 1 - start).min(LINE - 1);
            bytes | (u64::MAX << first & u64::MAX >> (LINE - 1 - last))
        })
    }

    /// A thread loaded from a range: an acquire of each variable in it. The clock of the segment that ended, if one did.
    #[must_use]
    pub fn load(&self, clocks: &Clocks, thread: u32, range: Range<u64>) -> Option<Clock> {
        // What ended first had the accesses.
        self.overlapping(range).fold(None, |ended, variable| {
            let next = clocks.acquire(thread, variable.start);
            ended.or(next)
        })
    }

    /// A thread stores to a range: a release at each variable in it, before which its segment was handed over.
    pub fn store(&self, clocks: &Clocks, thread: u32, range: Range<u64>) {
        for variable in self.overlapping(range) {
            clocks.release(thread, variable.start);
        }
    }

    /// A locked instruction of a thread: acquire and release, before which its segment was handed over.
    pub fn transfer(&self, clocks: &Clocks, thread: u32, range: Range<u64>) {
        self.overlapping(range).for_each(|variable| clocks.transfer(thread, variable.start));
    }
}
