//! A process that dies of a signal which one of its threads raised.
//!
//! In the recording the others had come as far as they had; in a replay, where nobody
//! sleeps and only recorded order holds anyone back, they may have hardly begun when the
//! signal strikes. What they did in the recording could race as well. So the thread that
//! dies waits for them: until each has done all that was recorded of it and is at rest,
//! or until none goes on, as where they wait for this one. Nothing here waits for good.
//!
//! Apart from ends by a call, before which the replay itself waits for everybody.

use crate::runtime;
use core::sync::atomic::{AtomicU32, Ordering};
use relive_sys::{proc, syscall};
use relive_trace::control::turn;

/// How often the others are looked at.
const PAUSE_MILLISECONDS: u32 = 2;
/// At so many looks in a row nobody came to another event, nor ended, nor computed: they wait, for a time that a busy
/// machine may take to wake one of them.
const STILL: u32 = 50;
/// At so many nobody came to another event, and somebody may have been computing.
const COMPUTING: u32 = 1000;

/// Waits until the process's other threads have done what they did in the recording, or go on no more.
pub(super) fn let_others_go_on(me: u32) {
    static NEVER: AtomicU32 = AtomicU32::new(0);
    let (mut before, mut still, mut at_rest) = ((0, 0), 0, 0);
    loop {
        let (mut events, mut left, mut computes) = (0u64, 0, false);
        for (index, slot) in (0..runtime::session().thread_count).zip(runtime::turns()) {
            let recorded = runtime::plan().thread(index);
            if recorded.process != runtime::process() || index == me {
                continue;
            }
            let done = slot.events.load(Ordering::Acquire);
            events = events.wrapping_add(done);
            let tid = slot.tid.load(Ordering::Acquire);
            let rests =
                slot.state.load(Ordering::Acquire) == turn::PARKED || tid != 0 && proc::is_gone(runtime::pid(), tid);
            if done < recorded.events || !rests {
                left += 1;
                // One that the replay was given up for may be asleep for good, behind what it came to.
                let runs = tid != 0 && slot.state.load(Ordering::Acquire) == turn::RUNNING;
                computes |= runs && !proc::is_asleep(tid);
            }
        }
        let is_still = (events, left) == before;
        still = if is_still { still + 1 } else { 0 };
        at_rest = if is_still && !computes { at_rest + 1 } else { 0 };
        if left == 0 || at_rest >= STILL || still >= COMPUTING {
            return;
        }
        before = (events, left);
        syscall::futex_wait(&NEVER, 0, Some(PAUSE_MILLISECONDS));
    }
}
