//! The end of a thread's start routine.
//!
//! Apart from the true end, for which there is no hook: destructors of
//! thread-specific data still run behind it, and signals strike there, too.

use crate::deferred;
use crate::environment::stacks;
use crate::outside;
use crate::replay;
use crate::runtime::{self, Mode};
use crate::stranger;
use crate::thread;
use core::sync::atomic::Ordering;
use relive_trace::control::turn as state;
use relive_trace::layout::end;

/// The start routine returned, or the thread is being unwound. Returns whether a replay must make this thread
/// the last of its process to end: in the recording it was, and so ran the exit handlers.
pub fn thread_finished() -> bool {
    let Some(thread) = thread::current_if_known() else { return false };
    if thread.cancellation.strikes_anywhere() && stranger::has_ended() {
        // Where the recording ends, at that cancellation, this thread had not ended; no event of its own says so.
        thread.join_clock(thread::clock_of_all() + 1);
    }
    // Signals that were put off would be lost with the thread.
    match runtime::mode() {
        Mode::Record => deferred::deliver_put_off(thread),
        Mode::Replay => replay::deliver_before_event(),
        Mode::Off => {}
    }
    stacks::thread_ends(thread);
    outside::may_wake();
    thread.finish();
    // What strikes from now on is told from what struck the routine, even if there was no operation between.
    thread.count_call(false);
    // Others may have come meanwhile, and there may be no next operation.
    match runtime::mode() {
        Mode::Record => deferred::deliver_put_off(thread),
        Mode::Replay => replay::deliver_before_operation(),
        Mode::Off => {}
    }
    if runtime::mode() != Mode::Replay {
        return false;
    }
    let recorded = runtime::plan().process(runtime::process());
    let last = recorded.end == end::EXITED && recorded.exit_thread == thread.index;
    if !last {
        thread.replay.slot().state.store(state::ENDED, Ordering::Release);
    }
    last
}
