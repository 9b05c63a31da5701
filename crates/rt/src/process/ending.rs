//! The end of a process: who called `exit`, and who is waited for.
//!
//! Apart from the life before because the program's exit handlers run in between.

use super::check_complete;
use crate::replay::{self, turn};
use crate::runtime::{self, Mode};
use crate::{chunk, outside, record, thread, writer};
use core::sync::atomic::{AtomicU32, Ordering};
use relive_order::Kind;
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
        Mode::Replay => wait_for_all(),
    }
}

/// The kernel is about to end a process whose environment is recorded.
pub fn gone() {
    if runtime::mode() == Mode::Record {
        outside::ending();
        runtime::leave_process();
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
