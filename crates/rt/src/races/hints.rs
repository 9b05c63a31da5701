//! The segment that released an object last, beside the object's clock.
//!
//! Threads that take many locks know most of what was left there already: they learnt it
//! with another lock. Whether that is so the lock itself can say, in a word that a replay
//! needs only while it learns: then an acquire looks neither at the shard of the object
//! nor at what it holds, which was in another thread's cache; nor does it come to the
//! detector at all, of which the rest runs natively.
//!
//! A word that is older than the process's last release there is never found: each release
//! writes it, or wipes it out. One that a former object left in its memory says at worst
//! that nothing was left, or has it looked up.
//!
//! Apart from the clocks, which know objects by keys and have no place in them.

use super::Pass;
use super::state::State;
use crate::object::Cell;
use crate::runtime;
use crate::thread;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use relive_race::{Clock, Clocks, Epoch};
use relive_trace::control::flag;

/// What a thread knows of those with the smallest indices, by these, or knew a while ago: how many of their segments
/// happened before its own.
#[derive(Debug)]
pub(crate) struct Knows([u64; KNOWN]);

const KNOWN: usize = 8;

impl Knows {
    /// As a thread begins.
    pub(crate) const NOTHING: Self = Self([0; KNOWN]);
}

/// Whether threads may find out by themselves that an acquire brings nothing.
static ON: AtomicBool = AtomicBool::new(false);

/// Whether it brings the calling thread nothing that an object is acquired whose clock this is, as far as it can see by
/// itself.
#[inline]
pub(super) fn brings_nothing(cells: &[&Cell]) -> bool {
    let ([cell], true) = (cells, ON.load(Relaxed)) else { return false };
    let (Some(last), Some(thread)) = (last(cell), thread::current_if_known()) else { return false };
    let known = thread.knows.0.get(last.thread() as usize);
    let nothing = last.thread() == thread.index || known.is_some_and(|&known| last.time() <= known);
    if nothing {
        // What it is about to do with the object gives the line time to come.
        State::get().fetch(cell);
    }
    nothing
}

/// The segment that released the object last, if all that was left there is known to whoever knows that.
#[inline]
fn last(cell: &Cell) -> Option<Epoch> {
    // The order of the replay is that of the two threads: it published the release.
    let word = cell.last.load(Relaxed);
    (word != 0).then(|| Epoch::from_bits(word))
}

/// Whether the words are there to be used.
#[derive(Debug)]
pub(super) struct Hints {
    on: bool,
}

impl Hints {
    pub(super) fn new(pass: Pass) -> Self {
        let on = pass == Pass::First && !runtime::has_flag(flag::LEARN);
        // Who counts segments wants to be told of each acquire.
        ON.store(on && !runtime::has_flag(flag::SEGMENTS), Relaxed);
        Self { on }
    }

    /// Whether the thread `me` knows all that was left at the object.
    #[inline]
    pub(super) fn is_known(&self, clocks: &Clocks, me: u32, cell: &Cell) -> bool {
        self.on && last(cell).is_some_and(|last| clocks.knows(me, last))
    }

    /// The object was released: with this segment, if it is one process's own and whoever knows that knows all.
    #[inline]
    pub(super) fn set(&self, cell: &Cell, known: Option<Epoch>) {
        if self.on {
            cell.last.store(known.map_or(0, Epoch::bits), Relaxed);
        }
    }
}

/// The calling thread has learnt what this clock knows.
pub(super) fn learn(clock: &Clock) {
    (0..).zip(&mut thread::current().knows.0).for_each(|(index, known)| *known = clock.time_of(index));
}

/// The process is a new one, in which all clocks begin anew.
pub(super) fn forked() {
    thread::current().knows = Knows::NOTHING;
}
