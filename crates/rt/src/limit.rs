//! Recordings that have enough: a limit of time or size was reached, and the
//! program goes on.
//!
//! Apart from the chunks because inputs count, too. The control memory says up to
//! which timestamp the trace holds. A thread that has not come so far goes on
//! writing up to there, since others may depend on what it does; all that is later
//! is dropped. What a thread calls is no event: who has seen that it is enough
//! keeps no call any more, and what it does next lies behind the end.

use crate::{runtime, thread};
use core::sync::atomic::Ordering;
use relive_trace::control::mode;

/// Whether the recording has reached a limit: nothing more is to be added to it.
#[inline]
pub fn has_enough() -> bool {
    runtime::session().mode.load(Ordering::Acquire) == mode::ENOUGH
}

/// Whether what happens after `clock` lies behind the end of a recording that has enough.
pub fn is_past_the_end(clock: u64) -> bool {
    has_enough() && clock > runtime::session().cut.load(Ordering::Acquire)
}

/// Whether the trace may grow by so many bytes. If not the recording has reached its limit, with what all threads of
/// this process have done so far.
pub fn may_grow(bytes: u64) -> bool {
    let control = runtime::session();
    if control.mode.load(Ordering::Acquire) != mode::RECORD {
        return control.mode.load(Ordering::Acquire) != mode::ENOUGH;
    }
    let spent = control.spent.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
    if spent <= control.allowed.load(Ordering::Relaxed) {
        return true;
    }
    let mut clock = control.latest.load(Ordering::Acquire);
    thread::each(|thread| {
        clock = clock.max(thread.clock());
        true
    });
    // Of several that come here one says where the recording ends.
    let _ = control.cut.compare_exchange(u64::MAX, clock, Ordering::AcqRel, Ordering::Acquire);
    let recording = (mode::RECORD, mode::ENOUGH);
    let _ = control.mode.compare_exchange(recording.0, recording.1, Ordering::AcqRel, Ordering::Relaxed);
    runtime::ring();
    false
}

/// The recording, which has enough, ends before the event at `clock`.
pub fn end_before(clock: u64) {
    runtime::session().cut.fetch_min(clock.saturating_sub(1), Ordering::AcqRel);
}
