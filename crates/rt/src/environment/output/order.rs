//! The order of what several threads and processes write to the session's output.
//!
//! No event orders two processes that write to one terminal. So the writes of a
//! session are numbered, by one word of the control memory that also says whose the
//! last one was. Only who follows another one keeps the number, behind the record of
//! the write: a process that writes alone has one such record.
//!
//! A replay shows a write when all with smaller numbers are shown. That can't
//! deadlock: who follows another one joins its clock, so whatever that one still has
//! to wait for lies before the follower's next event. A number may be missing, of a
//! thread that was killed between its write and the record of it or whose recording
//! was cut: it is passed over when nobody is left who could come with it.

use crate::replay::{self, calls as replayed};
use crate::runtime;
use crate::thread::Thread;
use crate::{environment::alone, writer};
use core::sync::atomic::Ordering;
use relive_sys::syscall;
use relive_trace::control::{Control, SHOWN_BITS, TurnSlot, turn};
use relive_trace::record::SHOWN;

/// The calling thread has written to the session's output, and that is in its stream.
#[inline(never)]
pub(super) fn wrote(thread: &mut Thread) {
    if !writer::is_recorded(thread) {
        return;
    }
    let control = runtime::session();
    let own = u64::from(thread.index) + 1;
    let mut seen = control.shown_by.load(Ordering::Acquire);
    loop {
        let follows = seen >> SHOWN_BITS != own;
        if follows {
            // It was there before the word said so.
            thread.join_clock(control.shown_clock.load(Ordering::Acquire));
        }
        let clock = thread.clock_base();
        if control.shown_clock.load(Ordering::Relaxed) < clock {
            control.shown_clock.fetch_max(clock, Ordering::AcqRel);
        }
        let number = seen & ((1 << SHOWN_BITS) - 1);
        let next = own << SHOWN_BITS | (number + 1);
        match control.shown_by.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) if follows => {
                // SAFETY: no memory is kept.
                return unsafe { writer::append_call(thread, usize::from(SHOWN), number as isize, &|_| {}) };
            }
            Ok(_) => return,
            Err(now) => seen = now,
        }
    }
}

/// Waits until all that was written before the calling thread's present write is shown. Its number.
pub(super) fn enter() -> u64 {
    if replayed::is_next(usize::from(SHOWN)) {
        let number = replayed::take(usize::from(SHOWN)).result as u64;
        replay::joined();
        replay::expect_shown(number);
        if !alone::is_on() {
            wait_for(runtime::session(), number);
        }
    }
    replay::expected_shown()
}

/// The write with this number is shown.
pub(super) fn leave(number: u64) {
    let control = runtime::session();
    replay::expect_shown(number + 1);
    control.shown.fetch_max(number + 1, Ordering::SeqCst);
    if control.shown_waiters.load(Ordering::SeqCst) != 0 {
        control.shown_bell.fetch_add(1, Ordering::AcqRel);
        syscall::futex_wake(&control.shown_bell, i32::MAX as u32);
    }
}

#[inline(never)]
fn wait_for(control: &Control, number: u64) {
    /// Nobody comes any more if nothing has moved at so many looks in a row.
    const STILL: u32 = 10;
    const LOOK_MS: u32 = 5;
    if control.shown.load(Ordering::SeqCst) >= number {
        return;
    }
    replay::set_blocked(true, 0);
    control.shown_waiters.fetch_add(1, Ordering::SeqCst);
    let (mut before, mut still) = (progress(control), 0);
    loop {
        let bell = control.shown_bell.load(Ordering::Acquire);
        if control.shown.load(Ordering::SeqCst) >= number || still == STILL {
            break;
        }
        let slept = syscall::futex_wait(&control.shown_bell, bell, Some(LOOK_MS));
        if slept == syscall::ETIMEDOUT {
            let now = progress(control);
            still = if now == before && !runtime::turns().iter().any(may_come) { still + 1 } else { 0 };
            before = now;
        }
    }
    control.shown_waiters.fetch_sub(1, Ordering::SeqCst);
    replay::set_blocked(false, 0);
}

fn progress(control: &Control) -> u64 {
    replay::turn::progress_of_all().wrapping_add(control.shown.load(Ordering::SeqCst))
}

/// Whether a thread may still write something, without another one that lets it go on.
fn may_come(slot: &TurnSlot) -> bool {
    let goes_on = matches!(slot.state.load(Ordering::Acquire), turn::RUNNING | turn::LAPSES);
    if !goes_on || slot.is_done.load(Ordering::Acquire) != 0 {
        return false;
    }
    let (pid, tid) = (slot.pid.load(Ordering::Acquire), slot.tid.load(Ordering::Acquire));
    tid == 0 || syscall::thread_exists(pid, tid)
}
