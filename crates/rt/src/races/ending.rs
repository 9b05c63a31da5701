//! The end of a process, which one of its threads brings about for all of them.
//!
//! A thread hands over what it did when it synchronises. One that is still computing
//! then does so no more, and the recording does not say how far it came. So whoever ends
//! the process lets the others compute for a moment, keeps them out of the detector from
//! then on, and looks at their logs from outside: what is in one belongs to the segment
//! that its thread is in, because a clock moves and its log is taken within the detector
//! alone. None of them is stopped or sent anything, and no wait here is without an end.
//!
//! Apart from the state, which is told of the others' logs here and knows nothing of
//! waiting for them.

use super::passage::Passage;
use crate::runtime;
use crate::translation::{self, Elsewhere};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU32;
use relive_sys::lock::Lock;
use relive_sys::{proc, syscall};

/// A thread that had the processor for so long, and came to no other memory meanwhile, is in a loop.
const LOOP_NANOSECONDS: u64 = 50_000_000;
/// How often the others are looked at, and how many times at most: for two seconds.
const PAUSE_MILLISECONDS: u32 = 5;
const LOOKS: u32 = 400;
/// No thread is within the detector for so long: it waits for nobody there.
const PASSAGE_MILLISECONDS: u32 = 1000;

/// The threads of the process, for the one that ends it.
#[derive(Debug)]
pub(super) struct Ending {
    /// The threads that run, by their indices.
    running: Lock<BTreeMap<u32, Place>>,
}

/// Where a thread is to be found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) tid: u32,
    pub(super) memory: Elsewhere,
}

impl Ending {
    pub(super) const fn new() -> Self {
        Self { running: Lock::new(BTreeMap::new()) }
    }

    /// The calling thread runs from here on, or was found to do so.
    pub(super) fn runs(&self, me: u32) {
        let here = || Place { tid: syscall::gettid(), memory: translation::memory_for_others() };
        self.running.lock().entry(me).or_insert_with(here);
    }

    /// The calling thread ends.
    pub(super) fn is_over(&self, me: u32) {
        self.running.lock().remove(&me);
    }

    /// Runs `fork` while nobody else is at the list of threads.
    pub(super) fn around(&self, passage: &Passage, fork: &mut dyn FnMut()) {
        let _running = self.running.lock();
        fork();
        if syscall::getpid() != runtime::pid() {
            // The child does not end with its parent.
            passage.open();
        }
    }

    /// In a child, whose one thread is within.
    pub(super) fn fork(&self) {
        self.running.lock().clear();
    }

    /// Where all others that run are to be found.
    pub(super) fn others(&self, me: u32) -> Vec<(u32, Place)> {
        let running = self.running.lock();
        running.iter().filter(|&(&index, _)| index != me).map(|(&index, &place)| (index, place)).collect()
    }

    /// The calling thread is about to end the process, and has let the others compute. `each` is told of what every other
    /// thread did since it was last within, none of which is now.
    pub(super) fn ends(&self, me: u32, passage: &Passage, mut each: impl FnMut(u32, &Elsewhere)) {
        passage.close(me);
        for _ in 0..PASSAGE_MILLISECONDS {
            if passage.is_empty(me) {
                for (index, place) in self.others(me) {
                    each(index, &place.memory);
                }
                return;
            }
            pause(1);
        }
    }

    /// Waits until every other thread waits for something, or does what it has done before.
    pub(super) fn let_compute(&self, me: u32) {
        // Of each, how many lines it had touched when it had that much time.
        let mut seen: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for _ in 0..LOOKS {
            let mut busy = false;
            for (index, place) in self.others(me) {
                let (lines, time) = (translation::lines_of(&place.memory), proc::computed(place.tid));
                let since = seen.entry(index).or_insert((lines, time));
                if since.0 != lines {
                    *since = (lines, time);
                }
                busy |= time.saturating_sub(since.1) < LOOP_NANOSECONDS && proc::is_running(place.tid);
            }
            if !busy {
                return;
            }
            pause(PAUSE_MILLISECONDS);
        }
    }
}

/// Waits so long.
pub(super) fn pause(milliseconds: u32) {
    static NEVER: AtomicU32 = AtomicU32::new(0);
    syscall::futex_wait(&NEVER, 0, Some(milliseconds));
}
