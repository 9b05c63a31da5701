//! Barriers, round by round.
//!
//! A fast thread may arrive at the next round before a slow one has departed from
//! this one; the slow one must not learn of it. So a departure belongs to the round
//! in which its thread arrived.
//!
//! Apart from other objects because no other has rounds.

use super::objects::accumulate;
use crate::clock::Clock;
use crate::mix::Table;
use alloc::vec::Vec;
use core::ops::Range;

/// All barriers in use.
#[derive(Debug, Default)]
pub(super) struct Barriers {
    all: Table<Barrier>,
}

/// The rounds of one barrier that somebody has yet to depart from, oldest first.
#[derive(Debug, Default)]
struct Barrier {
    rounds: Vec<Round>,
}

#[derive(Debug, Default)]
struct Round {
    /// What those who arrived left.
    left: Option<Clock>,
    arrived: u32,
    /// Who has yet to depart.
    inside: Vec<u32>,
    complete: bool,
}

impl Barriers {
    pub(super) fn arrive(&mut self, thread: u32, key: u64, parties: Option<u32>, clock: &Clock) {
        let rounds = &mut self.all.entry(key).or_default().rounds;
        // One that was cancelled while it waited never departs.
        for round in rounds.iter_mut() {
            round.inside.retain(|&inside| inside != thread);
        }
        rounds.retain(|round| !round.complete || !round.inside.is_empty());
        if rounds.last().is_none_or(|round| round.complete) {
            rounds.push(Round::default());
        }
        if let Some(round) = rounds.last_mut() {
            accumulate(&mut round.left, clock);
            round.inside.push(thread);
            round.arrived += 1;
            round.complete = parties == Some(round.arrived);
        }
    }

    /// What the round of a thread left; nothing if it did not arrive.
    pub(super) fn depart(&mut self, thread: u32, key: u64) -> Option<Clock> {
        let rounds = &mut self.all.get_mut(&key)?.rounds;
        let index = rounds.iter().position(|round| round.inside.contains(&thread))?;
        let round = &mut rounds[index];
        round.inside.retain(|&inside| inside != thread);
        round.complete = true;
        let left = round.left.clone();
        if round.inside.is_empty() {
            rounds.remove(index);
        }
        if rounds.is_empty() {
            self.all.remove(&key);
        }
        left
    }

    pub(super) fn forget_range(&mut self, keys: &Range<u64>) {
        if !self.all.is_empty() {
            self.all.retain(|key, _| !keys.contains(key));
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let of = |round: &Round| {
            size_of::<Round>() + round.inside.capacity() * 4 + round.left.as_ref().map_or(0, Clock::share_bytes)
        };
        self.all.allocation_size() + self.all.values().flat_map(|barrier| &barrier.rounds).map(of).sum::<usize>()
    }
}
