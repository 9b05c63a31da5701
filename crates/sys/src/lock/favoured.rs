//! A lock that one thread takes without a locked instruction: its favourite.
//!
//! The favourite says in a word that only it writes that it is within, then looks whether
//! somebody else wants the lock. Others queue up at a lock of their own; the first of them
//! says that it wants this one, then waits until the favourite is not within. A full
//! barrier stands on both sides between what is said and what is looked at, which others
//! run for the favourite where they can ([`Barrier`]): so they pay some microseconds. A
//! favourite that finds the lock wanted goes back and queues up like everybody.
//!
//! Who becomes the favourite does so while it has the lock as others do, and stays it
//! until it gives that up itself: nobody else could know that it is not just beginning.
//! Threads are known by their thread pointers; one that comes to have that of a thread
//! that is gone is its heir.
//!
//! Apart from the lock around it, which serves threads that are all alike.

use super::Lock;
use crate::barrier::Barrier;
use crate::primitive::{AtomicU32, AtomicU64, Ordering, own_thread, yield_now};
use core::cell::UnsafeCell;
use core::marker::PhantomData;

/// A lock around a value that one thread takes most of the time. Reset by nothing: a forked child goes on with it, if
/// nobody else had it.
#[derive(Debug)]
pub struct Favoured<T> {
    /// The favourite; 0 if there is none. Changes under `others`.
    favourite: AtomicU64,
    /// Whether the favourite is within, on its own account.
    within: AtomicU32,
    /// Whether somebody else is, or wants to be, while there is a favourite.
    wanted: AtomicU32,
    others: Lock<()>,
    barrier: Barrier,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a guard. Of these there is one at a time: the favourite's own one (`within` is
// 1, which only that thread writes and never twice; a guard can't leave its thread) excludes one of the others (`others` is held, and `wanted` is 1)
// by the barriers between each side's store and load. Where there is no favourite, none comes while `others` is held.
unsafe impl<T: Send> Sync for Favoured<T> {}

impl<T> Favoured<T> {
    /// An unlocked lock without a favourite.
    pub fn new(value: T) -> Self {
        Self {
            favourite: AtomicU64::new(0),
            within: AtomicU32::new(0),
            wanted: AtomicU32::new(0),
            others: Lock::new(()),
            barrier: Barrier::of_process(),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the lock, as the thread that will take it most of the time: the first that calls this is the favourite.
    ///
    /// # Panics
    /// If the favourite has it already. The caller must not be interrupted by code that takes it: block signals first.
    #[inline]
    pub fn lock_often(&self) -> Guard<'_, T> {
        let me = own_thread();
        if self.favourite.load(Ordering::Relaxed) == me
            && let Some(guard) = self.try_within()
        {
            return guard;
        }
        let guard = self.lock_as_others();
        if self.favourite.load(Ordering::Relaxed) == 0 {
            self.wanted.store(1, Ordering::Relaxed);
            self.favourite.store(me, Ordering::Relaxed);
        }
        guard
    }

    /// Waits for the lock, as any thread.
    ///
    /// # Panics
    /// As [`Favoured::lock_often`].
    pub fn lock(&self) -> Guard<'_, T> {
        let own = if self.favourite.load(Ordering::Relaxed) == own_thread() { self.try_within() } else { None };
        own.unwrap_or_else(|| self.lock_as_others())
    }

    /// If the calling thread is the favourite, it will not take the lock often any more.
    ///
    /// # Panics
    /// If it has the lock.
    pub fn retire(&self) {
        if self.favourite.load(Ordering::Relaxed) == own_thread() {
            // Nobody else has it then, and nor does the caller.
            let _others = self.others.lock();
            assert!(self.within.load(Ordering::Relaxed) == 0, "the favourite has the lock");
            self.favourite.store(0, Ordering::Relaxed);
        }
    }

    /// The favourite's way, unless somebody else wants the lock.
    #[inline]
    fn try_within(&self) -> Option<Guard<'_, T>> {
        assert!(self.within.load(Ordering::Relaxed) == 0, "the favourite has the lock already");
        self.within.store(1, Ordering::Relaxed);
        self.barrier.light();
        if self.wanted.load(Ordering::Acquire) == 0 {
            return Some(Guard { lock: self, as_favourite: true, here: PhantomData });
        }
        self.within.store(0, Ordering::Release);
        None
    }

    #[cold]
    #[inline(never)]
    fn lock_as_others(&self) -> Guard<'_, T> {
        core::mem::forget(self.others.lock());
        // Nobody becomes the favourite meanwhile.
        if self.favourite.load(Ordering::Relaxed) != 0 {
            self.wanted.store(1, Ordering::Relaxed);
            self.barrier.heavy();
            while self.within.load(Ordering::Acquire) != 0 {
                yield_now();
            }
        }
        Guard { lock: self, as_favourite: false, here: PhantomData }
    }
}

/// Holds a [`Favoured`].
#[derive(Debug)]
pub struct Guard<'a, T> {
    lock: &'a Favoured<T>,
    as_favourite: bool,
    /// Stays with its thread: nobody else may write what only the favourite does.
    here: PhantomData<*mut T>,
}

impl<T> core::ops::Deref for Guard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard's holder is alone with the value.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> core::ops::DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard's holder is alone with the value.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.as_favourite {
            self.lock.within.store(0, Ordering::Release);
        } else {
            self.lock.wanted.store(0, Ordering::Release);
            // SAFETY: this guard's holder took it and forgot its guard.
            unsafe { self.lock.others.unlock() };
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Favoured;

    #[test]
    fn the_favourite_and_others_count_exactly() {
        let count = Favoured::new(0u64);
        std::thread::scope(|s| {
            s.spawn(|| (0..200_000).for_each(|_| *count.lock_often() += 1));
            for _ in 0..2 {
                s.spawn(|| (0..2_000).for_each(|_| *count.lock() += 1));
            }
        });
        assert_eq!(*count.lock(), 204_000);
    }

    #[test]
    fn by_membarrier_as_well() {
        if crate::barrier::register() {
            the_favourite_and_others_count_exactly();
        }
    }

    #[test]
    fn one_after_the_other_is_the_favourite() {
        let count = Favoured::new(0u64);
        for _ in 0..3 {
            std::thread::scope(|s| {
                s.spawn(|| {
                    (0..10).for_each(|_| *count.lock_often() += 1);
                    count.retire();
                });
            });
        }
        assert_eq!(*count.lock_often(), 30);
    }

    #[test]
    #[should_panic(expected = "has the lock already")]
    fn the_favourite_takes_it_once() {
        let lock = Favoured::new(());
        drop(lock.lock_often());
        let _first = lock.lock_often();
        drop(lock.lock());
    }
}

#[cfg(all(test, loom))]
mod interleavings {
    use super::Favoured;
    use loom::sync::Arc;

    #[test]
    fn every_increment_counts() {
        loom::model(|| {
            let count = Arc::new(Favoured::new(0));
            drop(count.lock_often());
            let other = count.clone();
            let other = loom::thread::spawn(move || *other.lock() += 1);
            for _ in 0..2 {
                *count.lock_often() += 1;
            }
            other.join().unwrap();
            assert_eq!(*count.lock(), 3);
        });
    }

    #[test]
    fn whoever_is_the_favourite() {
        loom::model(|| {
            let count = Arc::new(Favoured::new(0));
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let count = count.clone();
                    loom::thread::spawn(move || {
                        (0..2).for_each(|_| *count.lock_often() += 1);
                        count.retire();
                    })
                })
                .collect();
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(*count.lock(), 4);
        });
    }
}
