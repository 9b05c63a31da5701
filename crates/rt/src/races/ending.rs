//! The end of a process, which one of its threads brings about for all of them.
//!
//! A thread hands over what it did when it synchronises. One that is still computing
//! then does so no more, and the recording does not say how far it came. So whoever ends
//! the process lets the others compute for a moment, keeps them out of the detector from
//! then on, and looks at their logs from outside: what is in one belongs to the segment
//! that its thread is in, because a clock moves and its log is taken within the detector
//! alone. None of them is stopped or sent anything, and no wait here is without an end.
//!
//! A fork keeps the others out likewise, for as long as it takes: the child has nobody
//! who would give back a lock.
//!
//! Apart from the state, whose locks stand behind this one: who is kept out holds none.

use crate::report;
use crate::runtime;
use crate::translation::{self, Elsewhere};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use relive_sys::lock::{Guard, Lock};
use relive_sys::{proc, syscall};

/// A thread that had the processor for so long, and came to no other memory meanwhile, is in a loop.
const LOOP_NANOSECONDS: u64 = 50_000_000;
/// How often the others are looked at, and how many times at most: for two seconds.
const PAUSE_MILLISECONDS: u32 = 5;
const LOOKS: u32 = 400;
/// No thread is within the detector for so long: it waits for nobody there.
const PASSAGE_MILLISECONDS: u32 = 1000;

/// Who is within the detector, and whether the process is ending.
#[derive(Debug)]
pub(super) struct Ending {
    /// By the threads' indices.
    seats: Box<[Seat]>,
    /// The thread that ends the process, by its index + 1; 0 for none.
    by: AtomicU32,
    /// The thread that forks, likewise.
    forks: AtomicU32,
    /// It has this.
    fork: Lock<()>,
    /// The threads that run, by their indices.
    running: Lock<BTreeMap<u32, Place>>,
}

/// How often a thread is within, at one moment: on a line of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Seat(AtomicU32);

/// Where a thread is to be found.
#[derive(Clone, Copy, Debug)]
struct Place {
    tid: u32,
    memory: Elsewhere,
}

/// Until it is dropped, a thread is within the detector.
#[derive(Debug)]
pub(super) struct Within<'a>(&'a Seat);

impl Drop for Within<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Until it is dropped, no other thread is within.
#[derive(Debug)]
pub(super) struct Alone<'a> {
    forks: &'a AtomicU32,
    _fork: Guard<'a, ()>,
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.forks.store(0, Ordering::SeqCst);
    }
}

impl Ending {
    /// For threads with indices below `count`.
    pub(super) fn new(count: u32) -> Self {
        let seats = (0..count).map(|_| Seat(AtomicU32::new(0))).collect();
        let (by, forks) = (AtomicU32::new(0), AtomicU32::new(0));
        Self { seats, by, forks, fork: Lock::new(()), running: Lock::new(BTreeMap::new()) }
    }

    /// The calling thread comes into the detector. Never returns once another one ends the process.
    #[inline]
    pub(super) fn enter(&self, me: u32) -> Within<'_> {
        let seat = &self.seats[me as usize];
        loop {
            seat.0.fetch_add(1, Ordering::SeqCst);
            let within = Within(seat);
            let mine = |by: u32| by == 0 || by == me + 1;
            let (by, forks) = (self.by.load(Ordering::SeqCst), self.forks.load(Ordering::SeqCst));
            if mine(by) && mine(forks) {
                return within;
            }
            drop(within);
            if !mine(by) {
                report::hold();
            }
            drop(self.fork.lock());
        }
    }

    /// The calling thread, which is not within, is about to fork: waits until nobody is.
    pub(super) fn alone(&self, me: u32) -> Alone<'_> {
        let fork = self.fork.lock();
        self.forks.store(me + 1, Ordering::SeqCst);
        while !self.is_empty(me) {
            syscall::sched_yield();
        }
        Alone { forks: &self.forks, _fork: fork }
    }

    /// Whether no other thread than this one is within.
    fn is_empty(&self, me: u32) -> bool {
        (0..).zip(&self.seats).all(|(index, seat): (u32, _)| index == me || seat.0.load(Ordering::SeqCst) == 0)
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
    pub(super) fn around(&self, fork: &mut dyn FnMut()) {
        let _running = self.running.lock();
        fork();
        if syscall::getpid() != runtime::pid() {
            // The child does not end with its parent.
            self.by.store(0, Ordering::SeqCst);
        }
    }

    /// In a child, whose one thread is within.
    pub(super) fn fork(&self) {
        self.running.lock().clear();
    }

    fn others(&self, me: u32) -> Vec<(u32, Place)> {
        let running = self.running.lock();
        running.iter().filter(|&(&index, _)| index != me).map(|(&index, &place)| (index, place)).collect()
    }

    /// The calling thread is about to end the process. `each` is told of what every other thread did since it was last
    /// within, none of which is now.
    pub(super) fn ends(&self, me: u32, mut each: impl FnMut(u32, &Elsewhere)) {
        self.let_compute(me);
        if self.by.compare_exchange(0, me + 1, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            report::hold();
        }
        for _ in 0..PASSAGE_MILLISECONDS {
            if self.is_empty(me) {
                for (index, place) in self.others(me) {
                    each(index, &place.memory);
                }
                return;
            }
            pause(1);
        }
    }

    /// Waits until every other thread waits for something, or does what it has done before.
    fn let_compute(&self, me: u32) {
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

fn pause(milliseconds: u32) {
    static NEVER: AtomicU32 = AtomicU32::new(0);
    syscall::futex_wait(&NEVER, 0, Some(milliseconds));
}
