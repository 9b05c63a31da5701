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
//! Threads use it at the same time. An operation has the lock of its object, then that
//! of its thread's clock (`objects.rs`, `threads.rs`): who uses other objects is not
//! held up. That operations on one object come in the order of the execution is for
//! the caller to see to.
//!
//! Apart from the histories because here stands what is known, and not what was done.

mod barriers;
mod objects;
mod records;
mod threads;

use crate::clock::{Clock, Floor};
use crate::epoch::Epoch;
use alloc::vec::Vec;
use barriers::Barriers;
use objects::{Object, Objects};
use relive_sys::lock::Lock;
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
#[derive(Debug)]
pub struct Clocks {
    threads: Threads,
    objects: Objects,
    barriers: Lock<Barriers>,
}

impl Clocks {
    /// No threads, no objects. Threads will have numbers below `threads`.
    pub fn new(threads: u32) -> Self {
        let barriers = Lock::new(Barriers::default());
        Self { threads: Threads::new(threads), objects: Objects::new(), barriers }
    }

    /// As it was made: in the child of a fork, where nobody was within.
    pub fn reset(&self) {
        self.threads.reset();
        self.objects.reset();
        *self.barriers.lock() = Barriers::default();
    }

    /// A thread that nobody created: the first one.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn start(&self, thread: u32) -> Result<(), Refusal> {
        self.threads.start(thread)
    }

    /// A thread creates another, which begins with what its creator knows. A release of the creator.
    ///
    /// # Errors
    /// See [`Refusal`]. Nothing has happened then.
    pub fn create(&self, parent: u32, child: u32) -> Result<(), Refusal> {
        self.threads.create(parent, child)
    }

    /// A thread ends: its last release.
    pub fn end(&self, thread: u32) {
        self.threads.end(thread);
    }

    /// A thread learns of the end of another. An acquire.
    ///
    /// # Panics
    /// If one of them is unknown.
    #[must_use]
    pub fn join(&self, thread: u32, other: u32) -> Option<Clock> {
        let left = self.threads.left(other);
        self.threads.acquire(thread, &left)
    }

    /// A thread learns what a segment knew. An acquire.
    #[must_use]
    pub fn learn(&self, thread: u32, segment: &Clock) -> Option<Clock> {
        self.threads.acquire(thread, segment)
    }

    /// Nobody will ask any more for what an ended thread knew: it was detached, or joined for good.
    pub fn forget_thread(&self, thread: u32) {
        self.threads.forget(thread);
    }

    /// The clock of a thread's current segment.
    #[inline]
    pub fn current(&self, thread: u32) -> Clock {
        self.threads.clock(thread)
    }

    /// The clocks of the current segments of all threads that run.
    pub fn running(&self) -> Vec<Clock> {
        self.threads.running_clocks()
    }

    /// How many threads run.
    pub fn running_count(&self) -> usize {
        self.threads.count()
    }

    /// Whether this thread is the only one that runs, and all that the others did happened before what it does now.
    pub fn knows_all(&self, thread: u32) -> bool {
        self.threads.count() == 1 && self.threads.are_known(&self.threads.clock(thread))
    }

    /// A mutex, spin lock or write lock was acquired, a semaphore lowered, a signal or a finished once seen.
    #[must_use]
    pub fn acquire(&self, thread: u32, key: u64) -> Option<Clock> {
        self.acquire_of(&*self.objects.get(key)?, thread)
    }

    #[inline]
    fn acquire_of(&self, object: &Object, thread: u32) -> Option<Clock> {
        let exclusive = object.exclusive.as_ref().and_then(|clock| self.threads.acquire(thread, clock));
        let shared = object.shared.as_ref().and_then(|clock| self.threads.acquire(thread, clock));
        // What ended first is what had accesses; a segment between the two acquires is empty.
        exclusive.or(shared)
    }

    /// A read lock was acquired: whatever exclusive releases left is known, what other readers left is not.
    #[must_use]
    pub fn acquire_shared(&self, thread: u32, key: u64) -> Option<Clock> {
        self.threads.acquire(thread, self.objects.get(key)?.exclusive.as_ref()?)
    }

    /// A mutex, spin lock or write lock is about to be released, a semaphore raised, a condition signalled, a once
    /// finished. Releases that do not know of each other accumulate.
    ///
    /// Returns the segment that ended, if all that was left at the object is known to whoever [knows](Clock::knows) it:
    /// until another release there, an acquire of such a thread would change nothing.
    pub fn release(&self, thread: u32, key: u64) -> Option<Epoch> {
        self.release_of(&mut self.objects.make(key), thread)
    }

    #[inline]
    fn release_of(&self, object: &mut Object, thread: u32) -> Option<Epoch> {
        let clock = self.threads.advance(thread);
        if object.shared.as_ref().is_some_and(|shared| clock.covers(shared)) {
            object.shared = None;
        }
        objects::accumulate(&mut object.exclusive, &clock);
        let all = object.shared.is_none() && object.exclusive.as_ref().is_some_and(|left| left.epoch == clock.epoch);
        all.then_some(clock.epoch)
    }

    /// What a release of an object will write to, if that is known: it can be fetched beforehand.
    #[inline]
    pub fn place_of(&self, key: u64) -> Option<*const u8> {
        self.objects.place_of(key)
    }

    /// A read lock is about to be released: the next writer will know, readers will not.
    pub fn release_shared(&self, thread: u32, key: u64) {
        let mut object = self.objects.make(key);
        objects::accumulate(&mut object.shared, &self.threads.advance(thread));
    }

    /// A release that hides earlier ones: an atomic store. Who loads the value knows what its writer knew, no more.
    pub fn store(&self, thread: u32, key: u64) {
        let mut object = self.objects.make(key);
        (object.exclusive, object.shared) = (Some(self.threads.advance(thread)), None);
    }

    /// An atomic read-modify-write: acquire and release.
    pub fn transfer(&self, thread: u32, key: u64) {
        let mut object = self.objects.make(key);
        // The caller handed the segment over as before any release; what the acquire ended is that segment.
        drop(self.acquire_of(&object, thread));
        self.release_of(&mut object, thread);
    }

    /// A thread arrives at a barrier: a release to the departures of this round. `parties` is how many threads make a
    /// round; if that is unknown, a round is complete when the first of its threads departs.
    pub fn arrive(&self, thread: u32, key: u64, parties: Option<u32>) {
        let mut barriers = self.barriers.lock();
        barriers.arrive(thread, key, parties, &self.threads.advance(thread));
    }

    /// A thread departs from a barrier: it knows what all arrivals of its round knew.
    #[must_use]
    pub fn depart(&self, thread: u32, key: u64) -> Option<Clock> {
        let clock = self.barriers.lock().depart(thread, key)?;
        self.threads.acquire(thread, &clock)
    }

    /// An object was destroyed, or its memory is used for something else.
    pub fn forget(&self, key: u64) {
        self.forget_range(key..key.saturating_add(1));
    }

    /// As [`Clocks::forget`] for all objects whose keys lie in a range, where keys are addresses.
    pub fn forget_range(&self, keys: core::ops::Range<u64>) {
        self.objects.forget_range(&keys);
        self.barriers.lock().forget_range(&keys);
    }

    /// A thread shows the others what it knows, for the [floor](Clocks::floor). All segments that it has ended must have
    /// been handed over.
    pub fn show(&self, thread: u32) {
        self.threads.show(thread);
    }

    /// What all threads that run know, by what each knew when it last [showed](Clocks::show) it, or created a thread, or
    /// began: nobody's present clock is looked at, and what any of them has yet to hand over knows it. Its cost is the
    /// square of the number of threads that run.
    pub fn floor(&self) -> Floor {
        self.threads.floor()
    }

    /// Forgets objects and ended threads of which everybody knows all.
    pub fn sweep(&self, floor: &Floor) {
        self.objects.sweep(floor);
        self.threads.sweep(floor);
    }

    /// Bytes of memory in use. Walks over all clocks.
    pub fn bytes(&self) -> usize {
        self.threads.bytes() + self.objects.bytes() + self.barriers.lock().bytes()
    }
}
