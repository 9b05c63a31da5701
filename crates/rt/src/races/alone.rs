//! The parts of a process's life in which it has one thread.
//!
//! What that thread reads and writes before it makes another one happens before all that any other will ever do, and what
//! it does behind the end of the last one, once it knows of all their ends, happens after: it races with nothing, and so
//! none of it is looked at (`RecPlay`'s segments without a concurrent one; Ronsse, Christiaens & De Bosschere 2003,
//! section 4). What stays is what matters later: clocks, blocks of the heap that were given back, and which bytes locked
//! instructions touched.
//!
//! The first part ends with the first creation of a thread; a fork child begins as its parent is. Programs that have
//! joined all of their threads mostly make new ones soon, and each change costs the translation of the program: so
//! the last part alone begins anew, when the recording has no thread left that was not made.
//!
//! Apart from the detector, whose answers are the same with and without this.

use crate::runtime;
use crate::translation;
use core::sync::atomic::{AtomicBool, Ordering};
use relive_trace::control::turn;

static ALONE: AtomicBool = AtomicBool::new(true);

/// Whether all that the process does now happens before or after what its other threads do.
#[inline(always)]
pub(crate) fn is_alone() -> bool {
    ALONE.load(Ordering::Relaxed)
}

/// A thread is about to be made, by the only one.
///
/// That one goes on in our own code, of which nothing is ever looked at; what is behind that is translated anew.
pub(super) fn ends() {
    if ALONE.swap(false, Ordering::Relaxed) {
        translation::look_anew();
    }
}

/// The calling thread is the only one and knows all that the others did. It stays the only one if the recording has no
/// other one that is yet to be made.
pub(super) fn may_begin() {
    let (plan, process) = (runtime::plan(), runtime::process());
    let is_to_come = |&(index, slot): &(u32, &relive_trace::control::TurnSlot)| {
        slot.state.load(Ordering::Acquire) == turn::UNBORN && plan.thread(index).process == process
    };
    if (0..runtime::session().thread_count).zip(runtime::turns()).all(|it| !is_to_come(&it))
        && !ALONE.swap(true, Ordering::Relaxed)
    {
        translation::look_anew();
    }
}
