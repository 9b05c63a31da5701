//! Sleeping until another thread's progress reaches a value, without a lock and
//! without a lost wake-up.
//!
//! A sleeper stores in `wake_at` the smallest value that somebody needs, then
//! looks at the progress again, then sleeps on `sequence`. A publisher stores its
//! progress, then looks at `wake_at`. Each needs a full barrier between its store
//! and its load, or both could miss each other; publishing is the hot side
//! ([`Barrier`]).
//!
//! The publisher resets `wake_at` before it raises `sequence`. So a sleeper whose
//! threshold was wiped out by the reset has read the old `sequence`, does not fall
//! asleep, and tries again.

use crate::barrier::Barrier;
use crate::primitive::{AtomicU32, AtomicU64, Ordering, futex_wait, futex_wake};

/// One thread's progress as others wait on it. Progress only grows.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// How far the thread is.
    pub reached: &'a AtomicU64,
    /// The smallest progress that somebody sleeps for; `u64::MAX` if nobody.
    pub wake_at: &'a AtomicU64,
    /// What sleepers sleep on.
    pub sequence: &'a AtomicU32,
}

/// How long one sleep may last, in milliseconds, where nothing but the progress matters. A lost wake-up would be a bug;
/// this only bounds its damage to a delay.
pub const SLEEP_MS: u32 = 500;

impl Progress<'_> {
    /// After `reached` was stored as `value`: wakes those whom it satisfies.
    #[inline(always)]
    pub fn announce(&self, value: u64, barrier: Barrier) {
        barrier.light();
        if self.wake_at.load(Ordering::Relaxed) <= value {
            self.wake();
        }
    }

    /// Wakes all who sleep for it, whatever they wait for: they are asked whether they go on.
    #[cold]
    #[inline(never)]
    pub fn wake(&self) {
        self.wake_at.store(u64::MAX, Ordering::SeqCst);
        self.sequence.fetch_add(1, Ordering::SeqCst);
        futex_wake(self.sequence, i32::MAX as u32);
    }

    /// Sleeps until `reached` is at least `wanted`, `sleep_ms` milliseconds at a time at most. `goes_on` is asked before
    /// each sleep, and again behind one for which [`Progress::wake`] came in between; where it says no, this returns `false`.
    pub fn sleep_until(&self, wanted: u64, barrier: Barrier, sleep_ms: u32, goes_on: impl Fn() -> bool) -> bool {
        loop {
            let sequence = self.sequence.load(Ordering::SeqCst);
            self.wake_at.fetch_min(wanted, Ordering::SeqCst);
            barrier.heavy();
            if self.reached.load(Ordering::Acquire) >= wanted {
                return true;
            }
            if !goes_on() {
                return false;
            }
            futex_wait(self.sequence, sequence, Some(sleep_ms));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Progress, SLEEP_MS};
    use crate::barrier::{self, Barrier};
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    fn hand_over(barrier: Barrier) {
        // Each test has its own: they run at the same time.
        let words = [const { (AtomicU64::new(0), AtomicU64::new(u64::MAX), AtomicU32::new(0)) }; 2];
        let progress = |i: usize| {
            let (reached, wake_at, sequence) = &words[i];
            Progress { reached, wake_at, sequence }
        };
        let progress = &progress;
        std::thread::scope(|s| {
            for me in 0..2usize {
                s.spawn(move || {
                    for round in 1..2000 {
                        assert!(progress(1 - me).sleep_until(round - 1, barrier, SLEEP_MS, || true));
                        progress(me).reached.store(round, Ordering::Release);
                        progress(me).announce(round, barrier);
                    }
                });
            }
        });
        assert_eq!(words[0].0.load(Ordering::Relaxed), 1999);
    }

    #[test]
    fn two_threads_in_step_by_their_own_barriers() {
        hand_over(Barrier::Symmetric);
    }

    #[test]
    fn two_threads_in_step_by_membarrier() {
        if barrier::register() {
            hand_over(Barrier::Asymmetric);
        }
    }
}

#[cfg(all(test, loom))]
mod interleavings {
    use super::{Progress, SLEEP_MS};
    use crate::barrier::Barrier;
    use crate::primitive::{AtomicU32, AtomicU64, Ordering};
    use loom::sync::Arc;

    struct Words {
        reached: AtomicU64,
        wake_at: AtomicU64,
        sequence: AtomicU32,
    }

    impl Words {
        fn progress(&self) -> Progress<'_> {
            Progress { reached: &self.reached, wake_at: &self.wake_at, sequence: &self.sequence }
        }
    }

    #[test]
    fn no_sleeper_is_forgotten() {
        loom::model(|| {
            let words = Arc::new(Words {
                reached: AtomicU64::new(0),
                wake_at: AtomicU64::new(u64::MAX),
                sequence: AtomicU32::new(0),
            });
            let sleepers: Vec<_> = [1, 2]
                .into_iter()
                .map(|wanted| {
                    let words = words.clone();
                    loom::thread::spawn(move || {
                        assert!(words.progress().sleep_until(wanted, Barrier::Symmetric, SLEEP_MS, || true))
                    })
                })
                .collect();
            for value in [1, 2] {
                words.reached.store(value, Ordering::Release);
                words.progress().announce(value, Barrier::Symmetric);
            }
            for sleeper in sleepers {
                sleeper.join().unwrap();
            }
        });
    }
}
