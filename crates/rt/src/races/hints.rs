//! The segment that released an object last, beside the object's clock.
//!
//! Threads that take many locks know most of what was left there already: they learnt it
//! with another lock. Whether that is so the lock itself can say, in a word that a replay
//! needs only while it learns: then an acquire looks neither at the shard of the object
//! nor at what it holds, which was in another thread's cache.
//!
//! A word that is older than the process's last release there is never found: each release
//! writes it, or wipes it out. One that a former object left in its memory says at worst
//! that nothing was left, or has it looked up.
//!
//! Apart from the clocks, which know objects by keys and have no place in them.

use super::Pass;
use crate::object::Cell;
use crate::runtime;
use core::sync::atomic::Ordering::Relaxed;
use relive_race::{Clocks, Epoch};
use relive_trace::control::flag;

/// Whether the words are there to be used.
#[derive(Debug)]
pub(super) struct Hints {
    on: bool,
}

impl Hints {
    pub(super) fn new(pass: Pass) -> Self {
        Self { on: pass == Pass::First && !runtime::has_flag(flag::LEARN) }
    }

    /// Whether the thread `me` knows all that was left at the object.
    #[inline]
    pub(super) fn is_known(&self, clocks: &Clocks, me: u32, cell: &Cell) -> bool {
        if !self.on {
            return false;
        }
        // The order of the replay is that of the two threads: it published the release.
        let last = cell.last.load(Relaxed);
        last != 0 && clocks.knows(me, Epoch::from_bits(last))
    }

    /// The object was released: with this segment, if it is one process's own and whoever knows that knows all.
    #[inline]
    pub(super) fn set(&self, cell: &Cell, known: Option<Epoch>) {
        if self.on {
            cell.last.store(known.map_or(0, Epoch::bits), Relaxed);
        }
    }
}
