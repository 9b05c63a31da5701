//! Letting others come to where they were when time had passed, and no further.
//!
//! Apart from the turns because no event follows from it: whoever does not come is not insisted on.

use super::{NEVER, is_elsewhere, others, progress, settle, wait_until};
use crate::replay::lapse;
use crate::runtime;
use core::sync::atomic::{AtomicU32, Ordering};
use relive_sys::{proc, syscall};
use relive_trace::control::{TurnSlot, turn as state};

/// Makes visible where a thread goes on that stands behind a lapse; 0 if it does not.
pub fn publish_stand(slot: &TurnSlot, beyond: u64) {
    if beyond > 0 {
        runtime::session().lapses.store(1, Ordering::Relaxed);
    }
    slot.awaited.beyond.store(beyond, Ordering::Release);
}

/// Makes visible how many lapses a thread has left, and behind which timestamp others have to wait for the next; wakes them.
pub fn publish_lapses(slot: &TurnSlot, left: u64, clock: u64) {
    if clock != u64::MAX {
        runtime::session().lapses.store(1, Ordering::Release);
    }
    let is_news = slot.awaited.lapses_left.swap(left, Ordering::Release) != left;
    if slot.awaited.lapse.swap(clock, Ordering::Release) != clock || is_news {
        // Others sleep for the one or the other.
        progress(slot, &slot.awaited.lapse).wake();
    }
}

/// Waits until no other thread of the process has a lapse before `time` left, and tells how many each has left. Returns the smallest
/// clock of one that is to come.
pub fn wait_for_lapses(own: &TurnSlot, index: u32, time: u64, mut tell: impl FnMut(u32, u64)) -> u64 {
    /// Of more threads than that those that have run their last events are passed over.
    const FEW: usize = 1000;
    let (control, turns) = (runtime::session(), runtime::turns());
    let born = control.born.load(Ordering::Acquire) as usize;
    let process = own.pid.load(Ordering::Relaxed);
    let mut least = u64::MAX;
    let mut wait_for = |other: u32, slot: &TurnSlot| {
        if other == index || slot.pid.load(Ordering::Relaxed) != process {
            return;
        }
        let lapse = &slot.awaited.lapse;
        let left = || Some(lapse.load(Ordering::Acquire)).filter(|&clock| clock > 0).unwrap_or(u64::MAX);
        if left() < time {
            wait_until(own, slot, other, (lapse, lapse), time, NEVER);
        }
        tell(other, slot.awaited.lapses_left.load(Ordering::Acquire));
        least = least.min(left());
    };
    if born <= FEW {
        (0..).zip(&turns[..born]).for_each(|(other, slot)| wait_for(other, slot));
    } else {
        let settled = settle(control, turns, born);
        others(turns, index, settled, born).for_each(|(other, slot)| wait_for(other, slot));
    }
    least
}

/// How long somebody sleeps at a time who may wait for a thread that stands behind a lapse, in milliseconds.
pub(super) const LOOK_MS: u32 = 10;

/// A thread that was seen to stand behind a lapse, by where it goes on, and how long it had computed by then.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stands {
    beyond: u64,
    computed: u64,
}

impl Stands {
    /// Looks once more. Whoever computes on for long behind a lapse may wait for what others do in a loop without any call: nobody
    /// is held back for it then.
    pub(super) fn or_passed(self, slot: &TurnSlot) -> Self {
        const LONG_NS: u64 = 20_000_000;
        let beyond = slot.awaited.beyond.load(Ordering::Acquire);
        if beyond == 0 {
            return Self::default();
        }
        let computed = proc::computed(slot.tid.load(Ordering::Relaxed));
        if self.beyond != beyond {
            return Self { beyond, computed };
        }
        if computed.saturating_sub(self.computed) > LONG_NS && slot.awaited.beyond.swap(0, Ordering::AcqRel) == beyond {
            slot.awaited.next.fetch_max(beyond, Ordering::AcqRel);
            slot.awaited.lapse.store(u64::MAX, Ordering::Release);
            slot.awaited.lapses_left.fetch_add(1, Ordering::AcqRel);
            progress(slot, &slot.awaited.next).wake();
        }
        self
    }
}

/// How those stand whom somebody lets come somewhere, and who are not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Behind {
    are_some: bool,
    run: bool,
    /// How far they are, in all.
    events: u64,
}

impl Behind {
    fn of<'a>(slots: impl Iterator<Item = &'a TurnSlot>) -> Self {
        slots.fold(Self::default(), |before, slot| Self {
            are_some: true,
            run: before.run || slot.state.load(Ordering::Acquire) == state::RUNNING,
            events: before.events.wrapping_add(slot.events.load(Ordering::Acquire)),
        })
    }
}

/// Lets threads that have just come somewhere, to the number of events that stands with each, go on to where they have to wait, or for
/// a moment of processor time: on a busy machine they may have none for a while.
fn let_settle<'a>(threads: impl Iterator<Item = (&'a TurnSlot, u64)>) {
    const MOMENT_NS: u64 = 200_000;
    const YIELDS: u32 = 100;
    const MILLISECONDS: u32 = 50;
    let time = |slot: &TurnSlot| proc::computed(slot.tid.load(Ordering::Relaxed));
    let runs_at = |slot: &TurnSlot, events| {
        slot.state.load(Ordering::Acquire) == state::RUNNING && slot.events.load(Ordering::Acquire) == events
    };
    let mut left = [const { None }; lapse::OTHERS_MAX];
    for (place, (slot, events)) in left.iter_mut().zip(threads.filter(|&(slot, events)| runs_at(slot, events))) {
        *place = Some((slot, events, time(slot)));
    }
    for round in 0..YIELDS + MILLISECONDS {
        let mut runs = false;
        for place in &mut left {
            let still = |&(slot, events, start): &(&TurnSlot, _, u64)| {
                runs_at(slot, events) && time(slot).saturating_sub(start) <= MOMENT_NS
            };
            *place = place.take().filter(still);
            runs |= place.is_some();
        }
        if !runs {
            return;
        }
        if round < YIELDS {
            syscall::sched_yield();
        } else {
            syscall::futex_wait(&AtomicU32::new(0), 0, Some(1));
        }
    }
}

/// Lets others come where `behind` says that they are not, as long as they come further.
fn let_go_on(own: &TurnSlot, behind: impl Fn() -> Behind) {
    const YIELDS: u32 = 200;
    /// Milliseconds for one that runs, and for one that waits: whoever waits for its turn may have been woken just now.
    const PATIENCE: [u32; 2] = [5000, 100];
    let never = AtomicU32::new(0);
    let (mut last, mut rounds, mut in_vain) = (behind(), 0, 0);
    if !last.are_some {
        return;
    }
    own.state.store(state::LAPSES, Ordering::Release);
    while last.are_some && in_vain < PATIENCE[usize::from(!last.run)] {
        if rounds < YIELDS {
            syscall::sched_yield();
        } else {
            syscall::futex_wait(&never, 0, Some(1));
            in_vain += 1;
        }
        rounds += 1;
        let now = behind();
        if now.events != last.events {
            in_vain = 0;
        }
        last = now;
    }
    own.state.store(state::RUNNING, Ordering::Release);
}

/// Lets each of the threads come to the number of events that stands with it, unless they do not come.
pub fn let_come_to<I: Iterator<Item = (u32, u64)>>(own: &TurnSlot, each: impl Fn() -> I) {
    // The numbers stand in the trace, and may be any.
    let slot = |other: u32| runtime::turns().get(other as usize).filter(|_| !is_elsewhere(other));
    let behind = |(other, events)| slot(other).filter(|slot| slot.events.load(Ordering::Acquire) < events);
    let_go_on(own, || Behind::of(each().filter_map(behind)));
    // What they stored behind those events they had stored by then, most likely: they are let come to where they have to wait.
    let_settle(each().filter_map(|(other, events)| Some((slot(other)?, events))));
}
