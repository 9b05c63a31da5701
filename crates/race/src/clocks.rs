//! Vector clocks of threads and objects: which segments happened before which.
//!
//! A thread's segment ends where it releases something, and where it acquires
//! something that it did not know. An object keeps the clock of the segment that
//! released it last, as the thread's number, its time and a share of its vector: to
//! release is one reference, and to acquire again what one knows is one comparison
//! (`FastTrack`, Flanagan & Freund 2009, takes this from accesses; it holds for
//! releases as well). Only where several threads released without knowing of each
//! other is there a vector of the object's own.
//!
//! Apart from the histories because its caller has one lock around all of it, and
//! holds it for a moment only.

mod barriers;
mod objects;
mod threads;

use crate::clock::{Clock, Floor};
use alloc::sync::Arc;
use barriers::Barriers;
use objects::Objects;
use threads::Threads;

pub use threads::Refusal;

/// The clocks of all threads and objects of a process.
///
/// A thread's current segment has the clock [`Clocks::current`]. An operation that releases always ends it: what the
/// segment did must have been handed to the histories *before*, else another thread that acquires may be checked first.
/// An operation that acquires returns the clock of the segment that it ended, if it did: what that segment did may be
/// handed over until the thread's next release. Where nothing is returned, the segment goes on.
///
/// Objects have keys of the caller's choice; nothing needs to be announced.
///
/// # Panics
/// All methods that take a thread panic if it was not announced ([`Clocks::start`], [`Clocks::create`]) or has ended.
#[derive(Debug, Default)]
pub struct Clocks {
    threads: Threads,
    objects: Objects,
    barriers: Barriers,
}

impl Clocks {
    /// No threads, no objects.
    pub fn new() -> Self {
        Self::default()
    }

    /// A thread that nobody created: the first one.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn start(&mut self, thread: u32) -> Result<(), Refusal> {
        self.threads.add(thread, None)
    }

    /// A thread creates another, which begins with what its creator knows. A release of the creator.
    ///
    /// # Errors
    /// See [`Refusal`]. Nothing has happened then.
    pub fn create(&mut self, parent: u32, child: u32) -> Result<(), Refusal> {
        let clock = self.threads.clock(parent).clone();
        self.threads.add(child, Some(&clock))?;
        self.threads.advance(parent);
        Ok(())
    }

    /// A thread ends: its last release.
    pub fn end(&mut self, thread: u32) {
        self.threads.end(thread);
    }

    /// A thread is about to wait for the end of another: it will do nothing before it knows what that one knows, so
    /// that it does not hold back the [floor](Clocks::floor). What its segment did must have been handed over.
    pub fn await_end(&mut self, thread: u32, other: u32) {
        self.threads.await_end(thread, other);
    }

    /// A thread learns of the end of another. An acquire.
    ///
    /// # Panics
    /// If one of them is unknown.
    #[must_use]
    pub fn join(&mut self, thread: u32, other: u32) -> Option<Clock> {
        let left = self.threads.left(other);
        self.threads.settle(thread);
        self.threads.acquire(thread, &left)
    }

    /// Nobody will ask any more for what an ended thread knew: it was detached, or joined for good.
    pub fn forget_thread(&mut self, thread: u32) {
        self.threads.forget(thread);
    }

    /// The clock of a thread's current segment.
    pub fn current(&self, thread: u32) -> &Clock {
        self.threads.clock(thread)
    }

    /// The clocks of the current segments of all threads that run.
    pub fn running(&self) -> impl Iterator<Item = &Clock> {
        self.threads.running_clocks()
    }

    /// A mutex, spin lock or write lock was acquired, a semaphore lowered, a signal or a finished once seen.
    #[must_use]
    pub fn acquire(&mut self, thread: u32, key: u64) -> Option<Clock> {
        let object = self.objects.get(key)?;
        let exclusive = object.exclusive.as_ref().and_then(|clock| self.threads.acquire(thread, clock));
        let shared = object.shared.as_ref().and_then(|clock| self.threads.acquire(thread, clock));
        // What ended first is what had accesses; a segment between the two acquires is empty.
        exclusive.or(shared)
    }

    /// A read lock was acquired: whatever exclusive releases left is known, what other readers left is not.
    #[must_use]
    pub fn acquire_shared(&mut self, thread: u32, key: u64) -> Option<Clock> {
        let clock = self.objects.get(key)?.exclusive.as_ref()?;
        self.threads.acquire(thread, clock)
    }

    /// A mutex, spin lock or write lock is about to be released, a semaphore raised, a condition signalled, a once
    /// finished. Releases that do not know of each other accumulate.
    pub fn release(&mut self, thread: u32, key: u64) {
        let clock = self.threads.clock(thread);
        let object = self.objects.make(key);
        objects::accumulate(&mut object.exclusive, clock);
        if object.shared.as_ref().is_some_and(|shared| clock.covers(shared)) {
            object.shared = None;
        }
        self.threads.advance(thread);
    }

    /// A read lock is about to be released: the next writer will know, readers will not.
    pub fn release_shared(&mut self, thread: u32, key: u64) {
        objects::accumulate(&mut self.objects.make(key).shared, self.threads.clock(thread));
        self.threads.advance(thread);
    }

    /// A release that hides earlier ones: an atomic store. Who loads the value knows what its writer knew, no more.
    pub fn store(&mut self, thread: u32, key: u64) {
        let object = self.objects.make(key);
        (object.exclusive, object.shared) = (Some(self.threads.clock(thread).clone()), None);
        self.threads.advance(thread);
    }

    /// An atomic read-modify-write: acquire and release.
    pub fn transfer(&mut self, thread: u32, key: u64) {
        // The caller handed the segment over as before any release; what the acquire ended is that segment.
        drop(self.acquire(thread, key));
        self.release(thread, key);
    }

    /// A thread arrives at a barrier: a release to the departures of this round. `parties` is how many threads make a
    /// round; if that is unknown, a round is complete when the first of its threads departs.
    pub fn arrive(&mut self, thread: u32, key: u64, parties: Option<u32>) {
        self.barriers.arrive(thread, key, parties, self.threads.clock(thread));
        self.threads.advance(thread);
    }

    /// A thread departs from a barrier: it knows what all arrivals of its round knew.
    #[must_use]
    pub fn depart(&mut self, thread: u32, key: u64) -> Option<Clock> {
        let clock = self.barriers.depart(thread, key)?;
        self.threads.acquire(thread, &clock)
    }

    /// An object was destroyed, or its memory is used for something else.
    pub fn forget(&mut self, key: u64) {
        self.forget_range(key..key.saturating_add(1));
    }

    /// As [`Clocks::forget`] for all objects whose keys lie in a range, where keys are addresses.
    pub fn forget_range(&mut self, keys: core::ops::Range<u64>) {
        self.objects.forget_range(&keys);
        self.barriers.forget_range(&keys);
    }

    /// What all threads that run know. Segments that have ended must have been handed over before it is used, because
    /// what they may race with is no longer held back by their threads. Its cost is the square of the number of threads.
    pub fn floor(&self) -> Floor {
        self.threads.floor()
    }

    /// Forgets objects and ended threads of which everybody knows all.
    pub fn sweep(&mut self, floor: &Floor) {
        self.objects.sweep(floor);
        self.threads.sweep(floor);
    }

    /// Bytes of memory in use. Walks over all clocks.
    pub fn bytes(&self) -> usize {
        self.threads.bytes() + self.objects.bytes() + self.barriers.bytes()
    }
}

/// The vector of who knows of nobody.
fn nothing() -> Arc<[u64]> {
    Arc::from([])
}
