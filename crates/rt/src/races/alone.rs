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
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
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

/// All threads of this process with smaller indices are made.
static MADE: AtomicU32 = AtomicU32::new(0);

/// Whether the recording has no thread of this process that is yet to be made.
///
/// Programs that join each thread before they make the next ask as often as they have threads: it goes on where it left off.
pub(super) fn all_are_made() -> bool {
    let (plan, process, turns) = (runtime::plan(), runtime::process(), runtime::turns());
    let is_made = |index: u32| {
        turns[index as usize].state.load(Ordering::Acquire) != turn::UNBORN || plan.thread(index).process != process
    };
    let count = runtime::session().thread_count;
    let made = (MADE.load(Ordering::Relaxed)..count).find(|&index| !is_made(index)).unwrap_or(count);
    MADE.store(made, Ordering::Relaxed);
    made == count
}

/// The calling thread is the only one from here on, and knows all that the others did.
pub(super) fn begins() {
    if !ALONE.swap(true, Ordering::Relaxed) {
        translation::look_anew();
    }
}

/// In a fork child, whose threads are other ones.
pub(super) fn forked() {
    MADE.store(0, Ordering::Relaxed);
}
