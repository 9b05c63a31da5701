//! The part of a process's life in which it has one thread.
//!
//! What that thread reads and writes happens before all that another one will ever do,
//! by its creation: it races with nothing, and so none of it is looked at. What stays
//! is what matters later: clocks, blocks of the heap that were given back, and which
//! bytes locked instructions touched.
//!
//! It ends with the first creation of a thread, and does not come back: programs that
//! have joined all of their threads mostly make new ones soon, and each change costs
//! the translation of the program. A fork child begins as its parent is.
//!
//! Apart from the detector, whose answers are the same with and without this.

use crate::translation;
use core::sync::atomic::{AtomicBool, Ordering};

static ALONE: AtomicBool = AtomicBool::new(true);

/// Whether no other thread was ever made in this process, nor in its parents before their forks.
#[inline(always)]
pub(crate) fn is_alone() -> bool {
    ALONE.load(Ordering::Relaxed)
}

/// A thread is about to be made, by the only one.
///
/// That one goes on in our own code, of which nothing is ever looked at; what is behind that is translated anew.
pub(super) fn ends() {
    if ALONE.swap(false, Ordering::Relaxed) {
        translation::look_at_all();
    }
}
