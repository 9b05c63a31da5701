//! The runtime's own lock: three states on a futex word (Drepper, *Futexes are
//! tricky*, mutex 2). It never nests with a lock that the program can hold.

mod favoured;

pub use favoured::{Favoured, Guard as FavouredGuard};

use crate::primitive::{AtomicU32, Ordering, futex_wait, futex_wake};
use core::cell::UnsafeCell;
use core::marker::PhantomData;

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

/// A lock around a value, usable before and after libc, and reset after fork.
#[derive(Debug)]
#[repr(C)]
pub struct Lock<T> {
    /// In front of what it guards: in the same line of the cache.
    state: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only between `lock` and the guard's drop, by one thread at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T: Default> Default for Lock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Lock<T> {
    /// An unlocked lock.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        Self { state: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// An unlocked lock; loom's atomics are not const.
    #[cfg(loom)]
    pub fn new(value: T) -> Self {
        Self { state: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// Waits for the lock. The caller must not be interrupted by code that takes it too: block signals first.
    pub fn lock(&self) -> Guard<'_, T> {
        if self.state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_err() && !self.spin() {
            while self.state.swap(CONTENDED, Ordering::Acquire) != FREE {
                futex_wait(&self.state, CONTENDED, None);
            }
        }
        Guard { lock: self, value: PhantomData }
    }

    /// Looks at the lock for a moment before its caller sleeps: what it guards is changed in less time than a sleep takes.
    #[cfg(not(loom))]
    fn spin(&self) -> bool {
        const LOOKS: usize = 100;
        for _ in 0..LOOKS {
            core::hint::spin_loop();
            if self.state.load(Ordering::Relaxed) == FREE
                && self.state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return true;
            }
        }
        false
    }

    /// Every interleaving of it is one of the waits behind it.
    #[cfg(loom)]
    fn spin(&self) -> bool {
        false
    }

    /// Frees a lock whose [`Guard`] was forgotten.
    ///
    /// # Safety
    /// Only by the holder.
    pub unsafe fn unlock(&self) {
        if self.state.swap(FREE, Ordering::Release) == CONTENDED {
            futex_wake(&self.state, 1);
        }
    }

    /// Frees a lock whose holder does not exist in this process.
    ///
    /// # Safety
    /// Only in a fork child while it has one thread that does not hold the lock.
    pub unsafe fn reset_after_fork(&self) {
        self.state.store(FREE, Ordering::Release);
    }
}

/// Holds a [`Lock`].
#[derive(Debug)]
pub struct Guard<'a, T> {
    lock: &'a Lock<T>,
    /// Whoever sees the guard may see the value: so it can be handed on, or shared, where that can.
    value: PhantomData<&'a mut T>,
}

impl<T> core::ops::Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this guard's holder is alone with the value.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> core::ops::DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard's holder is alone with the value.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: this guard's holder is the lock's.
        unsafe { self.lock.unlock() };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Lock;

    #[test]
    fn counts_exactly_under_contention() {
        static COUNT: Lock<u64> = Lock::new(0);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..20_000).for_each(|_| *COUNT.lock() += 1));
            }
        });
        assert_eq!(*COUNT.lock(), 80_000);
    }
}

#[cfg(all(test, loom))]
mod interleavings {
    use super::Lock;
    use loom::sync::Arc;

    #[test]
    fn every_increment_counts() {
        loom::model(|| {
            let count = Arc::new(Lock::new(0));
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let count = count.clone();
                    loom::thread::spawn(move || *count.lock() += 1)
                })
                .collect();
            *count.lock() += 1;
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(*count.lock(), 3);
        });
    }
}
