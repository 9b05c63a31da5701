//! The parts of a process's life in which it has one thread.
//!
//! What that thread reads and writes before it makes another one happens before all that any other will ever do, and what
//! it does behind the end of the last one, once it knows of all their ends, happens after what those did, and before what
//! any will do that it makes then: it races with nothing, and so none of it is looked at (`RecPlay`'s segments without a
//! concurrent one; Ronsse, Christiaens & De Bosschere 2003, section 4). What stays is what matters later: clocks, blocks
//! of the heap that were given back, and which bytes locked instructions touched.
//!
//! Such a part ends with the creation of a thread, and begins with the join of the last other one; a fork child, which
//! has one thread, is in one. The code is translated once for these parts and once for the others, and a turn from the one to
//! the other has its price, as blocks are found again and joined again. Where the recording has no thread left that was
//! not made, that is paid once. A program that makes threads anew pays it where the last such part took longer than
//! a few turns: those that join each thread before they make the next do nothing worth that between.
//!
//! There are none once other processes see memory of this one: what it does there alone may be what they wait for.
//!
//! Whether it was turned makes no difference to what is found: what the only thread reads and writes counts in neither way,
//! or a use of freed memory would be told in one run and not in the next.
//!
//! Apart from the detector, whose answers on races are the same with and without this.

use crate::runtime;
use crate::translation;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use relive_sys::{proc, syscall};
use relive_trace::control::{flag, turn};

static ALONE: AtomicBool = AtomicBool::new(true);

/// Whether all that the process does now happens before or after what its other threads do, and is not looked at.
#[inline(always)]
pub(crate) fn is_alone() -> bool {
    ALONE.load(Ordering::Relaxed)
}

/// Nanoseconds that the only thread had computed when it became that, while it is and may make others.
static SINCE: AtomicU64 = AtomicU64::new(NEVER);
const NEVER: u64 = u64::MAX;
/// Nanoseconds that a turn took.
static PRICE: AtomicU64 = AtomicU64::new(0);
/// Whether the last such part was worth two turns.
static WORTH: AtomicBool = AtomicBool::new(true);
/// Whether other processes see memory of this one.
static SEEN: AtomicBool = AtomicBool::new(false);
/// A turn costs as much again until all blocks are joined again; one comes before and one behind.
const PRICES: u64 = 4;
/// So much longer a part takes at least whose accesses are looked at.
const SLOWER: u64 = 2;

/// Whether the process has one thread, which may make others.
pub(crate) fn has_one_thread() -> bool {
    is_alone() || SINCE.load(Ordering::Relaxed) != NEVER
}

/// A thread is about to be made, by the only one.
///
/// That one goes on in our own code, of which nothing is ever looked at; what is behind that is seen in the other way.
pub(super) fn ends() {
    let (since, was_alone) = (SINCE.swap(NEVER, Ordering::Relaxed), ALONE.swap(false, Ordering::Relaxed));
    if since != NEVER {
        let took = computed().saturating_sub(since) / if was_alone { 1 } else { SLOWER };
        WORTH.store(took > PRICES * PRICE.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    if was_alone {
        look_anew();
    }
}

fn look_anew() {
    let before = computed();
    translation::look_anew();
    PRICE.store(computed().saturating_sub(before), Ordering::Relaxed);
}

fn computed() -> u64 {
    proc::computed(syscall::gettid())
}

/// From here on what the only thread accesses is looked at, too.
pub(super) fn counts() {
    if !SEEN.swap(true, Ordering::Relaxed) && is_alone() {
        SINCE.store(computed(), Ordering::Relaxed);
        ALONE.store(false, Ordering::Relaxed);
        look_anew();
    }
}

/// All threads of this process with smaller indices are made.
static MADE: AtomicU32 = AtomicU32::new(0);

/// Whether the recording has no thread of this process that is yet to be made.
///
/// Programs that join each thread before they make the next ask as often as they have threads: it goes on where it left off.
fn all_are_made() -> bool {
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
    let seen = SEEN.load(Ordering::Relaxed);
    let others_follow = !all_are_made();
    if others_follow || seen {
        SINCE.store(computed(), Ordering::Relaxed);
    }
    // Who counts segments counts the same in each replay, however long it took.
    let is_worth_it = WORTH.load(Ordering::Relaxed) && !runtime::has_flag(flag::SEGMENTS);
    if !seen && (!others_follow || is_worth_it) && !ALONE.swap(true, Ordering::Relaxed) {
        look_anew();
    }
}

/// In a fork child, whose threads are other ones; it has this one.
pub(super) fn forked() {
    MADE.store(0, Ordering::Relaxed);
    begins();
}
