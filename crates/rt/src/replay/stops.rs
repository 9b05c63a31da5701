//! Places in the recorded order at which a debugger is told of a thread.
//!
//! A debugger knows instructions, not events. Where the session names an event, the
//! thread that has completed it calls a function here that does nothing: a breakpoint
//! there is the event's. From then on the debugger counts by itself.

use super::Replay;
use crate::runtime;
use core::hint::black_box;

/// The event after which the thread is to be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    which: usize,
    event: u64,
}

impl Due {
    /// That of a thread, if the session names one.
    pub(super) fn of(thread: u32) -> Option<Self> {
        let stops = &runtime::session().stops;
        let which = stops.iter().position(|stop| stop.thread == u64::from(thread) + 1)?;
        Some(Self { which, event: stops[which].event })
    }

    /// So many events are complete then.
    pub(super) fn event(self) -> u64 {
        self.event
    }
}

/// The calling thread has completed an event, or begins.
#[inline]
pub fn tell_if_due(replay: &mut Replay) {
    if let Some(due) = replay.stop.take_if(|due| due.event == replay.events) {
        match due.which {
            0 => relive_at_first_access(),
            _ => relive_at_second_access(),
        }
    }
}

/// Where a debugger waits for the thread of a race's first access.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn relive_at_first_access() {
    black_box(1);
}

/// Likewise of its second.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn relive_at_second_access() {
    black_box(2);
}
