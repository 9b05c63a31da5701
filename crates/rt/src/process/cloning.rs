//! The moment at which the kernel makes a thread.
//!
//! Apart from the creation's event, which comes before what the creation does to the
//! new thread's stack.

use super::Child;
use crate::races;
use crate::runtime::{self, Mode};
use crate::thread;

/// # Safety
/// `child` must be a thread that does not run yet.
pub(super) unsafe fn starts_at(child: Child, time: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        if !(*child).header.is_null() {
            (*(*child).header).clock = time;
            (*(*child).header).start_clock = time;
        }
    }
}

/// The kernel is about to make the thread that the calling one creates. It comes after what the creation has done so
/// far, mapping a stack for one: in a replay its first event would wait for it otherwise, and the other way round.
pub fn about_to_clone() {
    if let Some(thread) = thread::current_if_known()
        && !thread.newborn.is_null()
    {
        // SAFETY: it does not run yet.
        unsafe {
            match runtime::mode() {
                Mode::Record => starts_at(thread.newborn, thread.clock()),
                // What the creation does to the new thread's stack happens before all that the thread does.
                Mode::Replay => races::created((*thread.newborn).index),
                Mode::Off => {}
            }
        }
    }
}
