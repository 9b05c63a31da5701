//! A thread that has done all that was recorded of it and goes on, or does something
//! else.
//!
//! Apart from the gate: whether that is a divergence or the end of the recording is
//! asked once a thread.

use super::{Replay, acting, calls};
use crate::races;
use crate::report::{self, Met};
use crate::runtime;
use crate::thread::Thread;
use core::sync::atomic::Ordering;
use relive_order::Kind;
use relive_trace::control::{cause, turn as state};

#[cold]
pub(super) fn past_the_end(thread: &mut Thread, kind: Kind, place: usize) -> ! {
    let r = &thread.replay;
    // Behind its start routine a thread may still run destructors; the end of the process may have cut those off.
    if r.finished_in_recording && !thread.finished {
        report::diverge_plain(cause::MORE_EVENTS, thread.index, Some(kind), r.events, place);
    }
    r.slot().kind.store(kind as u32, Ordering::Relaxed);
    r.slot().place.store(place as u64, Ordering::Relaxed);
    park(r)
}

/// The recording ends here.
#[cold]
fn park(r: &Replay) -> ! {
    // The process may be ended as soon as all stand here.
    races::waits();
    r.slot().state.store(state::PARKED, Ordering::Release);
    runtime::ring();
    report::hold()
}

#[cold]
pub(super) fn past_the_end_of_calls(thread: &mut Thread, number: usize) -> ! {
    if thread.replay.finished_in_recording && !thread.finished {
        calls::diverge(number);
    }
    park(&thread.replay)
}

/// The object was not free at this thread's turn: somebody acts who was not recorded.
pub fn busy(kind: Kind, place: usize, object: usize) -> ! {
    let &mut Thread { index: thread, replay: Replay { events: event, .. }, .. } = acting();
    report::diverge(Met { cause: cause::BUSY, thread, did: Some(kind), event, expected: 0, found: 0, place, object })
}

/// A call failed with `error` that had succeeded in the recording, or the other way round.
pub fn failed(kind: Kind, place: usize, expected: i64, found: i64) -> ! {
    let thread = acting();
    let (thread, event) = (thread.index, thread.replay.events);
    let (expected, found) = (expected as u64, found as u64);
    report::diverge(Met { cause: cause::FAILED, thread, did: Some(kind), event, expected, found, place, object: 0 })
}
