//! The threads' own clocks.
//!
//! Apart from the objects, which only store what threads left.

use super::nothing;
use crate::clock::{Clock, Floor};
use crate::epoch::{Epoch, THREADS_MAX};
use alloc::vec::Vec;
use core::fmt;

/// All threads, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Threads {
    all: Vec<Option<Thread>>,
}

#[derive(Debug)]
struct Thread {
    clock: Clock,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    /// It does nothing before it knows what that thread knows at its end.
    Awaits(u32),
    Ended,
}

/// Why a thread could not be taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Numbers must be below [`THREADS_MAX`].
    TooMany,
    /// A thread of that number runs, or its end is not known to the creator of the new one.
    InUse,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::TooMany => write!(f, "more than {THREADS_MAX} threads"),
            Refusal::InUse => f.write_str("a thread of that number may still run"),
        }
    }
}

impl Threads {
    /// Adds a thread that begins with what its creator knows. It may take over the number of one that ended, if the
    /// creator knows of that end: it is then as if that thread went on.
    pub(super) fn add(&mut self, number: u32, creator: Option<&Clock>) -> Result<(), Refusal> {
        if number >= THREADS_MAX {
            return Err(Refusal::TooMany);
        }
        let index = number as usize;
        let epoch = match self.all.get(index).and_then(Option::as_ref) {
            None => Epoch::new(number, 1),
            Some(former) => {
                let known = creator.is_some_and(|creator| creator.knows(former.clock.epoch));
                if former.state != State::Ended || !known {
                    return Err(Refusal::InUse);
                }
                former.clock.epoch.next()
            }
        };
        if self.all.len() <= index {
            self.all.resize_with(index + 1, || None);
        }
        let first = Clock::new(epoch, nothing());
        let others = creator.map_or_else(nothing, |creator| first.both(creator));
        self.all[index] = Some(Thread { clock: Clock::new(epoch, others), state: State::Running });
        Ok(())
    }

    fn thread(&self, number: u32) -> &Thread {
        let found = self.all.get(number as usize).and_then(Option::as_ref);
        found.unwrap_or_else(|| panic!("thread {number} was not announced"))
    }

    fn running(&mut self, number: u32) -> &mut Thread {
        let found = self.all.get_mut(number as usize).and_then(Option::as_mut);
        let found = found.unwrap_or_else(|| panic!("thread {number} was not announced"));
        assert!(found.state != State::Ended, "thread {number} has ended");
        found
    }

    /// The clock of a running thread.
    pub(super) fn clock(&self, number: u32) -> &Clock {
        let thread = self.thread(number);
        assert!(thread.state != State::Ended, "thread {number} has ended");
        &thread.clock
    }

    /// What a thread has left by now.
    pub(super) fn left(&self, number: u32) -> Clock {
        self.thread(number).clock.clone()
    }

    /// The segment ends because it was released.
    pub(super) fn advance(&mut self, number: u32) {
        let clock = &mut self.running(number).clock;
        clock.epoch = clock.epoch.next();
    }

    /// The thread learns of `clock`. If that is news, its segment ends; the clock of that.
    pub(super) fn acquire(&mut self, number: u32, clock: &Clock) -> Option<Clock> {
        let own = &mut self.running(number).clock;
        if own.covers(clock) {
            return None;
        }
        let next = Clock::new(own.epoch.next(), own.both(clock));
        Some(core::mem::replace(own, next))
    }

    pub(super) fn end(&mut self, number: u32) {
        self.running(number).state = State::Ended;
    }

    pub(super) fn await_end(&mut self, number: u32, other: u32) {
        self.thread(other);
        self.running(number).state = State::Awaits(other);
    }

    /// The thread waits no longer.
    pub(super) fn settle(&mut self, number: u32) {
        self.running(number).state = State::Running;
    }

    pub(super) fn forget(&mut self, number: u32) {
        if let Some(Some(thread)) = self.all.get_mut(number as usize)
            && thread.state == State::Ended
        {
            thread.clock.others = nothing();
        }
    }

    /// The clocks of all threads that run.
    pub(super) fn running_clocks(&self) -> impl Iterator<Item = &Clock> {
        self.all.iter().flatten().filter(|thread| thread.state != State::Ended).map(|thread| &thread.clock)
    }

    pub(super) fn floor(&self) -> Floor {
        let running = || self.all.iter().flatten().filter(|thread| thread.state != State::Ended);
        let known = |thread: &Thread, other: u32| {
            let own = thread.clock.time_of(other);
            match thread.state {
                State::Awaits(awaited) => own.max(self.thread(awaited).clock.time_of(other)),
                _ => own,
            }
        };
        let of = |other: u32| running().map(|thread| known(thread, other)).min().unwrap_or(u64::MAX);
        Floor((0..self.all.len() as u32).map(of).collect())
    }

    pub(super) fn sweep(&mut self, floor: &Floor) {
        for thread in self.all.iter_mut().flatten() {
            if thread.state == State::Ended && floor.knows(thread.clock.epoch) {
                thread.clock.others = nothing();
            }
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let vectors: usize = self.all.iter().flatten().map(|thread| thread.clock.share_bytes()).sum();
        self.all.capacity() * size_of::<Option<Thread>>() + vectors
    }
}
