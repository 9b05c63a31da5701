//! Where a replay runs signal handlers: the stream says between which operations
//! the recording did.
//!
//! Apart because fronts call these at places that are no events: at the entry of
//! calls that a signal can interrupt, and when a handler is installed.

use super::{acting, strike};
use crate::deferred;
use crate::thread::Thread;
use relive_sys::signal::{Info, handler_is_own, is_blocked};
use relive_trace::record::{COMPUTING, Record};

/// Runs the signal handlers that ran here in the recording.
#[inline]
pub fn deliver_due() {
    let thread = acting();
    if thread.replay.values.position() == Some(thread.replay.events) {
        deliver_recorded(false);
    }
}

/// Runs the signal handlers that ran before the next event in the recording, whatever calls the program has made:
/// how many there are between two events may depend on how pipes cut what they carry. For the next event, and for
/// calls that wait for nothing but a signal.
#[inline]
pub fn deliver_before_event() {
    let thread = acting();
    if thread.replay.values.position() == Some(thread.replay.events) {
        deliver_recorded(true);
    }
}

#[inline(never)]
fn deliver_recorded(before_event: bool) {
    loop {
        let thread = acting();
        let calls = thread.calls_so_far();
        thread.replay.skip_hashes();
        // What struck after as many calls may still come, unless this is the next operation.
        if strike::next_stand(&thread.replay).is_some_and(|recorded| before_event || recorded < calls) {
            strike::give_up(thread);
        }
        let r = &mut thread.replay;
        r.skip_hashes();
        let Some(Record::Signal { number, calls: recorded }) = r.values.at(r.events) else { return };
        // Inside a handler of the same signal the next one has to wait, as it had to in the recording.
        let here = before_event || recorded & !COMPUTING == calls || has_passed(recorded, calls);
        if !here || is_blocked(u32::from(number)) {
            return;
        }
        r.values.advance();
        deferred::replay(thread, u32::from(number));
        if has_passed(recorded, calls) {
            // In the recording it ran before these calls, which counted from its event on.
            acting().count_calls(calls - (recorded & !COMPUTING));
        }
    }
}

/// The thread has completed an operation: runs the handlers that ran while it computed on after it, if they are
/// installed by now, or sees to it that they run where they did.
#[inline]
pub fn deliver_computing() {
    let thread = acting();
    if thread.replay.values.position() == Some(thread.replay.events) {
        deliver_missed(thread);
        strike::arm(thread);
    }
}

/// [`deliver_computing`] but for handlers that run at once.
pub(super) fn look_for_passage() {
    let thread = acting();
    if thread.replay.values.position() == Some(thread.replay.events) {
        strike::arm(thread);
    }
}

/// The thread comes to its next operation: runs the handlers that ran while it computed on after the last one, and
/// those that ran behind them.
#[inline]
pub fn deliver_before_operation() {
    let thread = acting();
    if thread.replay.values.position() == Some(thread.replay.events) {
        deliver_struck(thread);
    }
}

#[inline(never)]
fn deliver_struck(thread: &mut Thread) {
    loop {
        let before = thread.replay.events;
        deliver_recorded(false);
        deliver_missed(thread);
        if strike::next_stand(&thread.replay).is_some() {
            strike::give_up(thread);
        } else if thread.replay.events == before {
            return;
        }
    }
}

#[inline(never)]
fn deliver_missed(thread: &mut Thread) {
    if thread.replay.values.position() == Some(thread.replay.events) {
        while let Some(number) = computing(thread) {
            if !handler_is_own(number) || is_blocked(number) {
                return;
            }
            thread.replay.values.advance();
            deferred::replay(thread, number);
        }
    }
}

/// The kernel sent this signal to a thread that computes: whether the recording ran its handler here.
pub fn is_due(info: &mut Info) -> bool {
    let thread = acting();
    if computing(thread) != Some(info.number as u32) {
        return false;
    }
    thread.replay.values.advance();
    deferred::replay_event(thread, info);
    true
}

#[inline(never)]
fn computing(thread: &mut Thread) -> Option<u32> {
    let calls = thread.calls_so_far();
    let r = &mut thread.replay;
    r.skip_hashes();
    match r.values.at(r.events) {
        Some(Record::Signal { number, calls: recorded })
            if recorded == calls | COMPUTING || has_passed(recorded, calls) =>
        {
            Some(u32::from(number))
        }
        _ => None,
    }
}

/// Whether a signal struck a thread that computed, after fewer calls than it has made by now.
fn has_passed(recorded: u32, calls: u32) -> bool {
    recorded & COMPUTING != 0 && recorded & !COMPUTING < calls
}
