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

/// Of some threads, how many of their segments happened before this one's: at least so many, as it found when it asked.
/// Their numbers agree with their places, modulo [`KNOWN`].
#[derive(Debug)]
pub(crate) struct Knows([(u32, u64); KNOWN]);

const KNOWN: usize = 16;

impl Knows {
    /// As a thread begins.
    pub(crate) const NOTHING: Self = Self([(u32::MAX, 0); KNOWN]);
}

/// Whether threads may find out by themselves that an acquire brings nothing.
static ON: AtomicBool = AtomicBool::new(false);

/// Whether it brings the calling thread nothing that an object is acquired whose clock this is, as far as it can see by
/// itself.
#[inline]
pub(super) fn brings_nothing(cells: &[&Cell]) -> bool {
    let ([cell], true) = (cells, ON.load(Relaxed)) else { return false };
    let (Some(last), Some(thread)) = (last(cell), thread::current_if_known()) else { return false };
    let known = thread.knows.0[last.thread() as usize % KNOWN];
    let nothing = last.thread() == thread.index || known.0 == last.thread() && last.time() <= known.1;
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

    /// The calling thread, `me`, acquires an object; `look_up` does that by the clocks.
    #[inline]
    pub(super) fn acquire(
        &self,
        clocks: &Clocks,
        me: u32,
        cell: &Cell,
        look_up: impl FnOnce() -> Option<Clock>,
    ) -> Option<Clock> {
        let Some(last) = last(cell).filter(|_| self.on) else { return look_up() };
        let ended = if clocks.current(me).knows(last) { None } else { look_up() };
        let time = clocks.current(me).time_of(last.thread());
        thread::current().knows.0[last.thread() as usize % KNOWN] = (last.thread(), time);
        ended
    }

    /// The object was released: with this segment, if it is one process's own and whoever knows that knows all.
    #[inline]
    pub(super) fn released(&self, cell: &Cell, known: Option<Epoch>) {
        if self.on {
            cell.last.store(known.map_or(0, Epoch::bits), Relaxed);
        }
    }
}

/// The process is a new one, in which all clocks begin anew.
pub(super) fn forked() {
    thread::current().knows = Knows::NOTHING;
}
