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
/// At so many looks in a row nobody came to another event, nor ended: they wait, for a time that a busy machine may take
/// to wake one of them.
const STILL: u32 = 50;
/// Likewise, and somebody may be computing.
const COMPUTING: u32 = 1000;

/// Waits until the process's other threads have done what they did in the recording, or go on no more.
pub(super) fn let_others_go_on(me: u32) {
    static NEVER: AtomicU32 = AtomicU32::new(0);
    let (mut before, mut still) = ((0, 0), 0);
    loop {
        let (mut events, mut left, mut most) = (0u64, 0, STILL);
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
                if tid != 0 && slot.state.load(Ordering::Acquire) == turn::RUNNING {
                    most = COMPUTING;
                }
            }
        }
        if left == 0 || still >= most {
            return;
        }
        still = if (events, left) == before { still + 1 } else { 0 };
        before = (events, left);
        syscall::futex_wait(&NEVER, 0, Some(PAUSE_MILLISECONDS));
    }
}
