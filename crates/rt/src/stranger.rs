//! Threads that nobody announced, and calls that can't be recorded.
//!
//! libc and the program can make threads that pass no front of ours: raw `clone`,
//! helpers of asynchronous input. What such a thread does to a recorded object has
//! no place in the order. The recording ends there: events later than the cut are
//! not part of it, all earlier ones are, so every other thread goes on writing.

use crate::runtime::{self, Mode};
use crate::{chunk, report, thread, writer};
use core::sync::atomic::{AtomicBool, Ordering};
use relive_sys::syscall;
use relive_trace::layout::stop;

static ENDED: AtomicBool = AtomicBool::new(false);

/// Whether the recording ended because of something that can't be recorded.
pub fn has_ended() -> bool {
    ENDED.load(Ordering::Relaxed)
}

fn end_recording(clock: u64) -> bool {
    ENDED.store(true, Ordering::Relaxed);
    chunk::cut(stop::REFUSED, clock)
}

/// A thread without a block did something to an object with this clock, while recording.
///
/// Everything that this can influence is later than the object's clock, and later than where the slowest thread
/// stands; so a cut at the larger of the two loses nothing that could still be replayed.
#[cold]
#[inline(never)]
pub fn met(clock: u64) {
    if runtime::mode() != Mode::Record {
        return;
    }
    let mut slowest = u64::MAX;
    thread::each(|t| {
        slowest = slowest.min(t.clock());
        true
    });
    let cut = if slowest == u64::MAX { clock } else { clock.max(slowest) };
    if end_recording(cut) {
        report::line(format_args!(
            "recording of process {} ends here: kernel thread {}, which was not made by pthread_create or thrd_create, \
             uses a recorded object; the program goes on",
            runtime::pid(),
            syscall::gettid()
        ));
    }
}

/// A thread without a block reached a front in a replay: it goes straight on.
#[cold]
#[inline(never)]
pub fn met_in_replay() -> Mode {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if !TOLD.swap(true, Ordering::Relaxed) {
        report::line(format_args!(
            "kernel thread {} was not made by pthread_create or thrd_create; what it does is not ordered",
            syscall::gettid()
        ));
    }
    Mode::Off
}

/// The calling thread does something that can't be recorded.
pub fn refuse(what: &str, place: usize) {
    if runtime::mode() != Mode::Record {
        return;
    }
    let Some(thread) = thread::current_if_known() else { return met(0) };
    if end_recording(thread.clock_base()) {
        report::line(format_args!(
            "recording of process {} ends here: thread {} uses {what} (called at {place:#x}), \
             which can't be recorded; the program goes on",
            runtime::pid(),
            thread.index
        ));
    }
    // Nor may it be: a process that it makes with the memory that it has would write in the same place.
    writer::close_run(thread);
    writer::go_on_unrecorded(thread);
}
