//! Which value of a counter belongs to a barrier's round, by what its threads see.
//!
//! All of a barrier's arrivals count on one clock. Who departs wants to know where it
//! stood when the round was complete. Later is not wrong, but a thread that is woken
//! late finds there what a faster one has done since: arrived at the next round. In a
//! recording that would put the slow one's departure behind all that the fast one
//! computes in that round, and a replay would run one thread at a time.
//!
//! Nobody arrives again who has not departed. So what the first departure of a round
//! finds is the round's own value. It leaves it here; the others take it. Which is the
//! first? The clock only grows: a value left by an earlier round is below each arrival
//! of this one, and a value left by this round is not.
//!
//! With more threads than parties that does not hold: one may have arrived at the next
//! round before anybody departed from this one, and take this round's value for its
//! own, which is too early. Then more are inside than there are parties, and the last
//! of these to come says so, before its arrival. The value is left only by who looks
//! for that behind having read the clock: if the clock has that arrival, the word is
//! seen. From then on everybody reads the clock for itself.
//!
//! Apart because the order of the steps is all there is to it, for loom to check.

use crate::primitive::{AtomicU32, AtomicU64, Ordering};

/// What the rounds of one barrier leave to each other.
#[derive(Debug)]
pub struct Rounds {
    /// Threads between arrival and departure.
    inside: AtomicU32,
    /// There were more of them than parties, at some time.
    crowded: AtomicU32,
    /// Where the clock stood when the last round was complete that somebody has departed from.
    complete: AtomicU64,
}

impl Rounds {
    /// Nobody has come.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self { inside: AtomicU32::new(0), crowded: AtomicU32::new(0), complete: AtomicU64::new(0) }
    }

    /// Nobody has come; loom's atomics are not const.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self { inside: AtomicU32::new(0), crowded: AtomicU32::new(0), complete: AtomicU64::new(0) }
    }

    /// A thread is about to arrive, and to count that on the clock.
    pub fn come(&self, parties: u32) {
        if self.inside.fetch_add(1, Ordering::SeqCst) >= parties {
            self.crowded.store(1, Ordering::SeqCst);
        }
    }

    /// Where the clock stood when the round was complete, or later, for a thread behind the barrier whose arrival made it
    /// `arrived`. It may come back to the barrier when this has returned, not before.
    ///
    /// `clock` reads the clock, which must never go back.
    pub fn completed(&self, arrived: u64, clock: impl Fn() -> u64) -> u64 {
        loop {
            let before = self.complete.load(Ordering::SeqCst);
            let now = clock();
            let value = if self.crowded.load(Ordering::SeqCst) != 0 {
                now
            } else if before >= arrived {
                before
            } else if self.complete.compare_exchange(before, now, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                now
            } else {
                continue;
            };
            self.inside.fetch_sub(1, Ordering::SeqCst);
            return value;
        }
    }
}

impl Default for Rounds {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Rounds;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    /// So many waits of `threads` at a barrier of `parties`: (arrived, completed) of each, in each thread's order. Whoever
    /// comes waits next, so that with a multiple of the parties none is left alone.
    fn run(threads: usize, parties: usize, waits: u64) -> Vec<Vec<(u64, u64)>> {
        let (shared, barrier) = (Rounds::new(), Barrier::new(parties));
        let (clock, given) = (AtomicU64::new(0), AtomicU64::new(0));
        let one = || {
            let wait = || {
                shared.come(parties as u32);
                let arrived = clock.fetch_add(1, SeqCst) + 1;
                barrier.wait();
                (arrived, shared.completed(arrived, || clock.load(SeqCst)))
            };
            std::iter::from_fn(|| (given.fetch_add(1, SeqCst) < waits).then(wait)).collect()
        };
        std::thread::scope(|s| {
            let running: Vec<_> = (0..threads).map(|_| s.spawn(one)).collect();
            running.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn all_threads_of_a_round_see_its_last_arrival() {
        let seen = run(3, 3, 6000);
        for round in 0..2000 {
            let last = seen.iter().map(|thread| thread[round].0).max().unwrap();
            assert!(seen.iter().all(|thread| thread[round].1 == last), "round {round}");
        }
    }

    #[test]
    fn nobody_sees_less_than_a_whole_round_where_more_threads_than_parties_take_turns() {
        let seen = run(4, 2, 4000);
        let mut arrivals: Vec<u64> = seen.iter().flatten().map(|wait| wait.0).collect();
        arrivals.sort_unstable();
        for &(arrived, completed) in seen.iter().flatten() {
            assert!(completed >= arrived, "an arrival is part of its round");
        }
        // Whoever saw no more than some value is of a round that was complete by then: there are arrivals enough for all.
        for most in arrivals {
            let departed = seen.iter().flatten().filter(|wait| wait.1 <= most).count() as u64;
            assert!(departed <= most, "{departed} had departed when {most} had arrived");
        }
    }
}

#[cfg(all(test, loom))]
mod interleavings {
    use super::Rounds;
    use loom::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use loom::sync::{Arc, Condvar, Mutex};

    /// The native barrier: (arrived, round).
    struct Native(Mutex<(usize, usize)>, Condvar, usize);

    impl Native {
        /// Which round it was.
        fn wait(&self) -> usize {
            let mut state = self.0.lock().unwrap();
            let round = state.1;
            state.0 += 1;
            if state.0 == self.2 {
                *state = (0, round + 1);
                self.1.notify_all();
            } else {
                while state.1 == round {
                    state = self.1.wait(state).unwrap();
                }
            }
            round
        }
    }

    struct All {
        shared: Rounds,
        native: Native,
        clock: AtomicU64,
        given: AtomicU64,
    }

    fn all(parties: usize) -> Arc<All> {
        Arc::new(All {
            shared: Rounds::new(),
            native: Native(Mutex::new((0, 0)), Condvar::new(), parties),
            clock: AtomicU64::new(0),
            given: AtomicU64::new(0),
        })
    }

    impl All {
        /// Takes one of so many waits after the other: which round each was, the arrival, and what it saw complete.
        fn waits(&self, waits: u64) -> Vec<(usize, u64, u64)> {
            std::iter::from_fn(|| (self.given.fetch_add(1, SeqCst) < waits).then(|| self.wait())).collect()
        }

        fn wait(&self) -> (usize, u64, u64) {
            self.shared.come(self.native.2 as u32);
            let arrived = self.clock.fetch_add(1, SeqCst) + 1;
            let round = self.native.wait();
            (round, arrived, self.shared.completed(arrived, || self.clock.load(SeqCst)))
        }
    }

    #[test]
    fn two_threads_see_each_round_complete_and_no_later() {
        loom::model(|| {
            let all = all(2);
            let other = all.clone();
            let thread = loom::thread::spawn(move || [other.wait(), other.wait()]);
            let mine = [all.wait(), all.wait()];
            let theirs = thread.join().unwrap();
            for (one, two) in mine.into_iter().zip(theirs) {
                assert_eq!(one.2, one.1.max(two.1));
                assert_eq!(two.2, one.2);
            }
        });
    }

    #[test]
    fn with_a_third_thread_nobody_sees_less_than_its_round() {
        loom::model(|| {
            let all = all(2);
            let threads = [all.clone(), all.clone()].map(|all| loom::thread::spawn(move || all.waits(4)));
            let mut seen = all.waits(4);
            seen.extend(threads.into_iter().flat_map(|thread| thread.join().unwrap()));
            for &(round, _, completed) in &seen {
                let last = seen.iter().filter(|it| it.0 == round).map(|it| it.1).max().unwrap();
                assert!(completed >= last);
            }
        });
    }
}
