//! Who is within the detector, and who is kept out of it: for good by the thread that
//! ends the process, for a while by one that forks, because the child would have nobody
//! to give back a lock. Every act of a thread comes through here, and hardly one closes
//! the way: who does so runs the barrier for both sides ([`Barrier`]).
//!
//! Apart from the state, whose locks stand behind this one: who is kept out holds none.

use crate::report;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU32, Ordering};
use relive_sys::barrier::Barrier;
use relive_sys::lock::{Guard, Lock};
use relive_sys::syscall;

/// The way into the detector.
#[derive(Debug)]
pub(super) struct Passage {
    /// By the threads' indices.
    seats: Box<[Seat]>,
    /// The thread that ends the process, by its index + 1; 0 for none.
    closed_by: AtomicU32,
    /// The thread that forks, likewise.
    forks: AtomicU32,
    /// It has this.
    fork: Lock<()>,
    barrier: Barrier,
}

/// How often a thread is within, at one moment, as that thread alone writes it: on a line of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Seat(AtomicU32);

/// Until it is dropped, a thread is within the detector.
#[derive(Debug)]
pub(super) struct Within<'a>(&'a Seat);

impl Drop for Within<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.0.store(self.0.0.load(Ordering::Relaxed) - 1, Ordering::Release);
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

impl Passage {
    /// For threads with indices below `count`.
    pub(super) fn new(count: u32) -> Self {
        let seats = (0..count).map(|_| Seat(AtomicU32::new(0))).collect();
        let (closed_by, forks) = (AtomicU32::new(0), AtomicU32::new(0));
        Self { seats, closed_by, forks, fork: Lock::new(()), barrier: Barrier::of_process() }
    }

    /// The calling thread comes into the detector. Never returns once another one ends the process.
    #[inline]
    pub(super) fn enter(&self, me: u32) -> Within<'_> {
        let seat = &self.seats[me as usize];
        loop {
            seat.0.store(seat.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            let within = Within(seat);
            self.barrier.light();
            let mine = |by: u32| by == 0 || by == me + 1;
            let (by, forks) = (self.closed_by.load(Ordering::Acquire), self.forks.load(Ordering::Acquire));
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
        self.barrier.heavy();
        while !self.is_empty(me) {
            syscall::sched_yield();
        }
        Alone { forks: &self.forks, _fork: fork }
    }

    /// Whether no other thread than this one is within.
    pub(super) fn is_empty(&self, me: u32) -> bool {
        (0..).zip(&self.seats).all(|(index, seat): (u32, _)| index == me || seat.0.load(Ordering::Acquire) == 0)
    }

    /// From here on nobody but the calling thread comes in. Never returns if another one has done the same.
    pub(super) fn close(&self, me: u32) {
        if self.closed_by.compare_exchange(0, me + 1, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            report::hold();
        }
        self.barrier.heavy();
    }

    /// Takes [`Passage::close`] back.
    pub(super) fn open(&self) {
        self.closed_by.store(0, Ordering::SeqCst);
    }
}
