//! How many processors a replay uses.
//!
//! Threads that hand locks to each other all the time are slower on several processors
//! than on one: each hand-over costs a wait, and a transfer of all that the lock guards.
//! The recorded program could not know; a replay has its order and sees how often its
//! threads wait for each other. While they do so more than every few microseconds, they
//! all run on one processor, where who waits gives way to who is waited for. When they
//! wait less, they get all processors back.
//!
//! Only where the environment is recorded: programs must not see it. Apart from the
//! replay because nothing depends on it but time.

use crate::processes;
use crate::shared::Shared;
use relive_trace::control::{TurnSlot, turn};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread::{Scope, Thread};
use std::time::{Duration, Instant};

/// How often to look.
const LOOK: Duration = Duration::from_millis(5);
/// Waits a second of each thread above which all get one processor: half of the time goes into them then.
const OFTEN: u64 = 40_000;
/// Below which they get all of them.
const SELDOM: u64 = 15_000;
/// So many looks in a row must say the same.
const TO_NARROW: u32 = 2;
const TO_WIDEN: u32 = 4;

/// Sees to it as long as it is there.
#[derive(Debug)]
pub(super) struct Width {
    thread: Thread,
    ended: Arc<AtomicBool>,
}

impl Width {
    pub(super) fn see_to<'s>(scope: &'s Scope<'s, '_>, shared: &'s Shared) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        let thread = scope.spawn(move || see_to(shared, &seen)).thread().clone();
        Self { thread, ended }
    }
}

impl Drop for Width {
    fn drop(&mut self) {
        self.ended.store(true, Release);
        self.thread.unpark();
    }
}

fn see_to(shared: &Shared, ended: &AtomicBool) {
    let Ok(all) = sched_getaffinity(None) else { return };
    if all.count() < 2 {
        return;
    }
    let control = shared.control();
    let mut choice = Choice::default();
    let (mut seen, mut when) = (0, Instant::now());
    while !ended.load(Acquire) {
        std::thread::park_timeout(LOOK);
        let waits: u64 = shared.turns().iter().map(|slot| slot.waits.load(Relaxed)).sum();
        let now = Instant::now();
        let micros = u64::try_from((now - when).as_micros()).unwrap_or(u64::MAX).max(1);
        let rate = waits.saturating_sub(seen).saturating_mul(1_000_000) / micros;
        (seen, when) = (waits, now);
        let threads = shared.turns().iter().filter(|slot| runs(slot)).count().min(all.count() as usize);
        match choice.look(rate, threads) {
            Some(true) => {
                if let Some(one) = where_it_runs(shared.turns()) {
                    assign(shared.turns(), &one);
                }
                control.narrow.store(1, Relaxed);
            }
            Some(false) => {
                control.narrow.store(0, Relaxed);
                assign(shared.turns(), &all);
            }
            None => {}
        }
    }
}

/// What is chosen, and how it is.
#[derive(Debug, Default)]
struct Choice {
    narrow: bool,
    /// Looks in a row that were for the other one.
    looks: u32,
}

impl Choice {
    /// `Some` if it is to be narrow, or wide, from now on, after so many waits a second of so many threads.
    fn look(&mut self, rate: u64, threads: usize) -> Option<bool> {
        let each = rate / threads.max(1) as u64;
        let other = if self.narrow { each < SELDOM } else { each > OFTEN && threads > 1 };
        self.looks = if other { self.looks + 1 } else { 0 };
        if self.looks < if self.narrow { TO_WIDEN } else { TO_NARROW } {
            return None;
        }
        *self = Self { narrow: !self.narrow, looks: 0 };
        Some(self.narrow)
    }
}

fn runs(slot: &TurnSlot) -> bool {
    matches!(slot.state.load(Relaxed), turn::RUNNING | turn::WAITING)
}

/// The processor on which a thread of the replay is.
fn where_it_runs(turns: &[TurnSlot]) -> Option<CpuSet> {
    let slot = turns.iter().find(|slot| slot.state.load(Relaxed) == turn::RUNNING)?;
    let processor = processes::processor(slot.pid.load(Relaxed), slot.tid.load(Relaxed))?;
    let mut one = CpuSet::new();
    (processor < CpuSet::MAX_CPU).then(|| one.set(processor))?;
    Some(one)
}

/// Gives all threads of the replay's processes these processors. New threads have those of their makers.
fn assign(turns: &[TurnSlot], processors: &CpuSet) {
    let alive = turns.iter().filter(|slot| runs(slot) || slot.state.load(Relaxed) == turn::BLOCKED);
    let processes: BTreeSet<u32> = alive.map(|slot| slot.pid.load(Relaxed)).filter(|&pid| pid != 0).collect();
    for thread in processes.into_iter().flat_map(processes::threads) {
        if let Some(thread) = i32::try_from(thread).ok().and_then(Pid::from_raw) {
            // One that has ended meanwhile needs none.
            let _ = sched_setaffinity(Some(thread), processors);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Choice, OFTEN, SELDOM};

    #[test]
    fn threads_that_wait_all_the_time_get_one_processor_until_they_do_not() {
        let mut choice = Choice::default();
        let mut look = |rate: u64| choice.look(rate * 4, 4);
        assert_eq!([OFTEN * 2, 0, OFTEN * 2].map(&mut look), [None; 3]);
        assert_eq!(look(OFTEN * 2), Some(true));
        assert_eq!([OFTEN, SELDOM + 1, 0, 0, 0].map(&mut look), [None; 5]);
        assert_eq!(look(0), Some(false));
        assert_eq!([SELDOM, OFTEN].map(&mut look), [None; 2]);
    }

    #[test]
    fn one_thread_has_nobody_to_give_way_to() {
        let mut choice = Choice::default();
        assert_eq!([u64::MAX; 3].map(|rate| choice.look(rate, 1)), [None; 3]);
    }
}
