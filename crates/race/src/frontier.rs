//! Which races nothing can have influenced.
//!
//! A replay repeats the order of synchronisation, not that of racing accesses. Up to
//! the first race it is the recorded execution; what comes after may be a consequence
//! of it, and a race there may be one that cannot happen at all.
//!
//! Netzer & Miller 1991 (*Improving the accuracy of data race detection*): a race
//! *affects* another if one of its accesses happened before one of the other's. A
//! race that no other affects is a first race. Races can affect each other in a
//! circle (two threads write x and y in opposite orders): those form a *partition*,
//! and of a partition that nothing outside affects at least one race did happen.
//! So [`Standing::First`] means: no race affects this one but those of its own
//! partition. Everything else is [`Standing::Later`].
//!
//! Here accesses are as exact as segments: two accesses of the same segment count as
//! unordered. And races are those that were told of ([`Frontier::add`]): not all
//! pairs, but those that nothing stands between, which are what the detectors report.
//!
//! Partitions need all pairs of racing segments. When there are too many of them they
//! are given up, and the *race frontier* alone decides (`RecPlay` 2003), the first
//! racing segment of each thread: a race is later if one of those happened before it.
//! That can only call a race later that affects what affects it.
//!
//! Apart from the histories because it is asked at the end.

mod partitions;

use crate::clock::Clock;
use crate::epoch::Epoch;
use alloc::collections::{BTreeMap, BTreeSet};

/// Where a race stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// No race outside its own partition happened before one of its accesses: certain.
    First,
    /// After the first race: a consequence of it, perhaps.
    Later,
}

/// Distinct pairs that are kept.
const PAIRS_MAX: usize = 1 << 16;

/// The races told by now.
#[derive(Debug)]
pub struct Frontier {
    pairs: BTreeSet<(Epoch, Epoch)>,
    pairs_max: usize,
    clocks: BTreeMap<Epoch, Clock>,
    /// There were more pairs than are kept.
    given_up: bool,
    /// The first racing segment of each thread.
    first: BTreeMap<u32, Epoch>,
}

impl Default for Frontier {
    fn default() -> Self {
        Self::with_limit(PAIRS_MAX)
    }
}

/// What is known of all races.
#[derive(Debug)]
pub struct Order<'a> {
    frontier: &'a Frontier,
    /// The pairs of first partitions.
    firsts: BTreeSet<(Epoch, Epoch)>,
}

impl Frontier {
    /// No race.
    pub fn new() -> Self {
        Self::default()
    }

    /// As [`Frontier::new`], with another number of pairs that are kept.
    pub(crate) fn with_limit(pairs_max: usize) -> Self {
        Self { pairs: BTreeSet::new(), pairs_max, clocks: BTreeMap::new(), given_up: false, first: BTreeMap::new() }
    }

    /// Two segments race.
    pub fn add(&mut self, older: &Clock, newer: &Clock) {
        for epoch in [older.epoch(), newer.epoch()] {
            let first = self.first.entry(epoch.thread()).or_insert(epoch);
            *first = epoch.min(*first);
        }
        if self.given_up || !self.pairs.insert((older.epoch(), newer.epoch())) {
            return;
        }
        for clock in [older, newer] {
            self.clocks.entry(clock.epoch()).or_insert_with(|| clock.clone());
        }
        if self.pairs.len() > self.pairs_max {
            self.given_up = true;
            self.pairs.clear();
            self.clocks.clear();
        }
    }

    /// The race frontier: the first racing segment of each thread that has one.
    pub fn segments(&self) -> impl Iterator<Item = Epoch> {
        self.first.values().copied()
    }

    /// Whether a segment lies behind the frontier: a racing access happened before it.
    pub fn is_before(&self, clock: &Clock) -> bool {
        self.first.values().any(|&first| first != clock.epoch() && clock.knows(first))
    }

    /// Finds the first partitions. Its cost is linear in the number of pairs, and of racing segments times threads.
    pub fn order(&self) -> Order<'_> {
        Order { frontier: self, firsts: partitions::firsts(&self.pairs, &self.clocks) }
    }
}

impl Order<'_> {
    /// Where a race stands that was told of, by the clocks of its segments.
    pub fn standing(&self, older: &Clock, newer: &Clock) -> Standing {
        let pair = (older.epoch(), newer.epoch());
        let unaffected = || !self.frontier.is_before(older) && !self.frontier.is_before(newer);
        if self.firsts.contains(&pair) || self.frontier.given_up && unaffected() {
            Standing::First
        } else {
            Standing::Later
        }
    }
}
