//! Hands an execution to the detector as the runtime does: bits of a segment's lines
//! are gathered, and handed over when the segment ends.

use super::execution::{Event, PARTIES, What};
use super::owned::{self, Idle};
use super::shadow::Shadow;
use crate::{Clock, Clocks, Epoch, Floor, History, Often, Race, pieces};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::vec::Vec;

/// Few enough that lines meet in them.
const CELLS: usize = 128;

/// The detector under test and what it found.
pub(super) struct Detect {
    pub(super) clocks: Clocks,
    history: History<'static, Idle>,
    shadows: BTreeMap<u32, Shadow>,
    often: Option<Often>,
    pub(super) races: Vec<Race>,
    /// Lines of which the detector does not know whether they race.
    pub(super) unsure: BTreeSet<u64>,
    /// How often a thread's reads of a line began to last.
    pub(super) lasted: usize,
    /// The segment that each event fell into.
    pub(super) segments: Vec<Epoch>,
}

/// What all running threads know, whatever they have shown.
pub(super) fn known_by_all(clocks: &Clocks) -> Floor {
    let running = clocks.running();
    let lowest = |thread| running.iter().map(|clock| clock.time_of(thread)).min().unwrap_or(u64::MAX);
    Floor((0..1024).map(lowest).collect())
}

/// What the detector says of an execution.
pub(super) fn detect(events: &[Event]) -> Detect {
    detect_in(CELLS, events)
}

/// The same with so many cells.
pub(super) fn detect_in(cells: usize, events: &[Event]) -> Detect {
    detect_lasting(cells, events, None)
}

/// The same where reads that are made so often last.
pub(super) fn detect_lasting(cells: usize, events: &[Event], often: Option<Often>) -> Detect {
    let mut detect = Detect {
        clocks: Clocks::new(16),
        history: owned::history(cells),
        shadows: BTreeMap::new(),
        often,
        races: Vec::new(),
        unsure: BTreeSet::new(),
        lasted: 0,
        segments: Vec::new(),
    };
    detect.clocks.start(0).unwrap();
    for event in events {
        detect.segments.push(detect.clocks.current(event.thread).epoch());
        detect.event(event);
    }
    detect.flush_all();
    detect.unsure.extend(detect.history.lasting().take_unsure());
    detect.lasted = detect.shadows.values().map(|shadow| shadow.lasted).sum();
    detect
}

impl Detect {
    fn event(&mut self, event: &Event) {
        let thread = event.thread;
        match &event.what {
            What::Read(range) => self.note(thread, range, true),
            What::Write(range) => self.note(thread, range, false),
            What::Free(range) => {
                self.flush_all();
                let clock = self.clocks.current(thread);
                self.history.free(&clock, range.clone(), &mut |race| self.races.push(race));
                self.let_ended_go(thread);
            }
            What::Fresh(range) => {
                self.flush_all();
                self.history.fresh(range.clone());
                self.let_ended_go(thread);
            }
            What::Sweep => {
                // What was shown is never more than what is known.
                self.clocks.show(thread);
                let (shown, known) = (self.clocks.floor(), known_by_all(&self.clocks));
                assert!(self.segments.iter().all(|&segment| known.knows(segment) || !shown.knows(segment)));
                let floor = if thread.is_multiple_of(2) { shown } else { known };
                self.clocks.sweep(&floor);
                self.history.raise(&floor);
            }
            _ => {
                let Self { clocks, history, shadows, often, races, .. } = self;
                let shadow = shadows.entry(thread).or_insert_with(|| Shadow::new(*often));
                let ended = synchronise(clocks, event, |clocks| {
                    shadow.hand_over(history, &clocks.current(thread), races);
                    if closes(&event.what) {
                        shadow.close(history, clocks.current(thread).epoch());
                    }
                });
                if let Some(clock) = ended {
                    shadow.hand_over(history, &clock, races);
                }
            }
        }
    }

    fn note(&mut self, thread: u32, range: &Range<u64>, read: bool) {
        let often = self.often;
        let shadow = self.shadows.entry(thread).or_insert_with(|| Shadow::new(often));
        for (line, bytes) in pieces(range.clone()) {
            shadow.note(line, bytes, read);
        }
    }

    fn let_ended_go(&mut self, thread: u32) {
        if let Some(shadow) = self.shadows.get_mut(&thread) {
            shadow.let_ended_go(&self.history, thread);
        }
    }

    /// Hands over what all threads did by now: parts of their segments.
    fn flush_all(&mut self) {
        for (&thread, shadow) in self.shadows.iter_mut().filter(|(_, shadow)| shadow.has_any()) {
            shadow.hand_over(&self.history, &self.clocks.current(thread), &mut self.races);
        }
    }
}

/// Whether reads that last are closed there: beyond an end nobody closes them, beyond the others they need not be.
fn closes(what: &What) -> bool {
    matches!(what, What::End | What::Arrive(..))
}

/// Applies an operation; `release` is called before one that ends the segment in any case. The clock of a segment that
/// an acquire ended.
pub(super) fn synchronise(clocks: &Clocks, event: &Event, release: impl FnOnce(&Clocks)) -> Option<Clock> {
    let thread = event.thread;
    match event.what {
        What::Lock(key) | What::WriteLock(key) | What::Wait(key) | What::Load(key) => {
            return clocks.acquire(thread, key);
        }
        What::ReadLock(key) => return clocks.acquire_shared(thread, key),
        What::Depart(key, _) => return clocks.depart(thread, key),
        What::Join(other) => {
            let ended = clocks.join(thread, other);
            clocks.forget_thread(other);
            return ended;
        }
        _ => release(clocks),
    }
    match event.what {
        What::Create(child) => clocks.create(thread, child).unwrap(),
        What::End => clocks.end(thread),
        What::Unlock(key) | What::WriteUnlock(key) | What::Post(key) => {
            clocks.release(thread, key);
        }
        What::ReadUnlock(key) => clocks.release_shared(thread, key),
        What::Arrive(key, _) => clocks.arrive(thread, key, Some(PARTIES)),
        What::Store(key) => clocks.store(thread, key),
        What::Swap(key) => clocks.transfer(thread, key),
        _ => unreachable!("no operation of a primitive"),
    }
    None
}
