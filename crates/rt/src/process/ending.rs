//! The end of a process: who called `exit`, and who is waited for.
//!
//! Apart from the life before because the program's exit handlers run in between.

use super::check_complete;
use crate::replay::{self, turn};
use crate::runtime::{self, Mode};
use crate::{chunk, outside, races, record, thread, writer};
use core::sync::atomic::{AtomicU32, Ordering};
use relive_order::Kind;
use relive_sys::{proc, syscall};
use relive_trace::control::turn as state;
use relive_trace::layout::{NONE, end};

/// The program called `exit`: one event, so that replay knows who did.
pub fn exiting(code: u32, place: usize) {
    let Some(thread) = thread::current_if_known() else { return };
    match runtime::mode() {
        Mode::Off => {}
        Mode::Record => {
            record::alone(Kind::Exit);
            writer::append_tally(thread);
            EXIT.0.store(code, Ordering::Relaxed);
            EXIT.1.store(thread.index, Ordering::Relaxed);
        }
        Mode::Replay => {
            replay::enter(Kind::Exit, place);
            replay::leave(Kind::Exit, &[], false);
        }
    }
}

static EXIT: (AtomicU32, AtomicU32) = (AtomicU32::new(0), AtomicU32::new(NONE));

/// The process is at its very end: exit handlers have run, or it called `_exit`.
pub fn ended() {
    match runtime::mode() {
        Mode::Off => {}
        Mode::Record => {
            let by = match EXIT.1.load(Ordering::Relaxed) {
                // The last thread ended, and libc called exit for it.
                NONE => thread::current_if_known().map_or(NONE, |t| t.index),
                known => known,
            };
            chunk::note_end(end::EXITED, EXIT.0.load(Ordering::Relaxed), by);
            outside::ending();
            // What libc still writes on its way out is recorded, too.
            if !crate::environment::is_on() {
                runtime::leave_process();
            }
        }
        Mode::Replay if has_more() => {
            ENDS_LATER.store(thread::current_if_known().map_or(NONE, |t| t.index), Ordering::Relaxed);
        }
        Mode::Replay => wait_for_all(),
    }
}

/// Whether the calling thread of a replay, which ended the process in the recording, too, has events left: libraries that
/// are closed after ours flush their streams, or do what ended the recording.
fn has_more() -> bool {
    let recorded = runtime::plan().process(runtime::process());
    let ends = |index| match recorded.end {
        end::EXITED => recorded.exit_thread == index,
        end::STOPPED => true,
        _ => false,
    };
    thread::current_if_known().is_some_and(|t| ends(t.index) && t.replay.events() < t.replay.total())
}

/// The thread that ends the process, once it has done all that was recorded of it.
static ENDS_LATER: AtomicU32 = AtomicU32::new(NONE);

/// The calling thread of a replay has done all that was recorded of it: if the process was at its end, it is so now.
pub fn has_done_all() {
    let me = thread::current_if_known().map_or(NONE, |t| t.index);
    if me != NONE && ENDS_LATER.compare_exchange(me, NONE, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        wait_for_all();
    }
}

/// The kernel is about to end a process whose environment is recorded.
pub fn gone() {
    if runtime::mode() == Mode::Record {
        outside::ending();
        runtime::leave_process();
    }
}

/// The calling thread of a replay is about to become the first of another image, and nobody must take it for one that
/// goes on in this: its kernel's id stays. Waits as [`wait_for_all`] does.
pub fn leaves_image() {
    wait_for_all();
    races::leaves_image();
    if let Some(thread) = thread::current_if_known() {
        thread.replay.slot().state.store(state::ENDED, Ordering::Release);
    }
}

/// The image could not be started.
pub fn stays_in_image() {
    if let Some(thread) = thread::current_if_known() {
        thread.replay.slot().state.store(state::RUNNING, Ordering::Release);
    }
}

/// A replay ends only when every thread of the process has come as far as it had in the recording.
pub fn wait_for_all() {
    let Some(thread) = thread::current_if_known() else { return };
    let plan = runtime::plan();
    for index in 0..runtime::session().thread_count {
        let recorded = plan.thread(index);
        if recorded.process == runtime::process() && index != thread.index {
            turn::wait_for_end(thread.replay.slot(), index, recorded.events);
        }
    }
    if thread.replay.events() < thread.replay.total() && !runtime::has_flag(relive_trace::control::flag::DEBUGGER) {
        check_complete(thread, 0);
    }
}

/// Waits until every other thread of the process has run its events and is gone.
pub fn wait_until_alone() {
    let Some(thread) = thread::current_if_known() else { return };
    let plan = runtime::plan();
    let pid = runtime::pid();
    replay::set_blocked(true, 0);
    for (other, slot) in (0..).zip(runtime::turns()) {
        if other == thread.index || plan.thread(other).process != runtime::process() {
            continue;
        }
        turn::wait_for_end(thread.replay.slot(), other, plan.thread(other).events);
        let tid = slot.tid.load(Ordering::Acquire);
        while tid != 0 && !proc::is_gone(pid, tid) {
            syscall::futex_wait(&slot.tid, tid, Some(1));
        }
    }
    replay::set_blocked(false, 0);
}
