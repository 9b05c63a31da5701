//! The locks that are held from before an instruction until behind it.
//!
//! Apart from other locks because what frees one is a few instructions that change no
//! flag: so nobody sleeps for it, who would have to be woken.

use crate::primitive::{AtomicU32, Ordering};
use crate::{proc, syscall};
use core::cell::UnsafeCell;

const FREE: u32 = 0;
const TAKEN: u32 = 1;

/// A lock with what its holder may change, in a line of the cache for itself.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Held<T> {
    /// First: its address is the lock's.
    state: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by the lock's holder alone.
unsafe impl<T: Send> Sync for Held<T> {}

impl<T> Held<T> {
    /// Where the value stands in it; in front of that, the lock's word, which is 0 where it is free.
    pub const VALUE_AT: usize = core::mem::offset_of!(Self, value);

    /// A free one.
    pub const fn new(value: T) -> Self {
        Self { state: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// Waits for it: for the length of an instruction, or until a holder without a processor has one again. Returns the value.
    pub fn take(&self) -> *mut T {
        const LOOKS: u32 = 1000;
        let mut looks = 0u32;
        while self.state.compare_exchange_weak(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_err() {
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(LOOKS) {
                syscall::sched_yield();
            }
            core::hint::spin_loop();
        }
        self.value.get()
    }

    /// As [`Held::take`], where processes share it: whoever has it is the thread `tid`, which is not 0, and if that has ended
    /// meanwhile, by a signal that nothing holds back, the next one has it.
    pub fn take_among_processes(&self, tid: u32) -> *mut T {
        const LOOKS: u32 = 1000;
        const MANY: u32 = 100 * LOOKS;
        let mut looks = 0u32;
        let mut expected = FREE;
        while let Err(holder) = self.state.compare_exchange(expected, tid, Ordering::Acquire, Ordering::Relaxed) {
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(LOOKS) {
                syscall::sched_yield();
            }
            let is_left = holder != FREE && looks.is_multiple_of(MANY) && proc::has_ended(holder);
            expected = if is_left { holder } else { FREE };
            core::hint::spin_loop();
        }
        self.value.get()
    }

    /// What it guards, where nobody ever takes it.
    ///
    /// # Safety
    /// Nobody may hold it, now or while the reference is used.
    pub unsafe fn unguarded(&self) -> &T {
        // SAFETY: the caller's promise: who changes the value is a holder.
        unsafe { &*self.value.get() }
    }

    /// Whether somebody has it.
    pub fn is_taken(&self) -> bool {
        self.state.load(Ordering::Relaxed) != FREE
    }

    /// Frees it.
    ///
    /// # Safety
    /// Only by the holder, or in a fork child whose one thread holds none.
    pub unsafe fn free(&self) {
        self.state.store(FREE, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::{FREE, Held};
    use crate::primitive::Ordering;
    use crate::syscall::gettid;

    #[test]
    fn what_a_thread_had_that_has_ended_others_take() {
        let word = Held::new(7u64);
        let ended = std::thread::spawn(gettid).join().unwrap();
        word.state.store(ended, Ordering::Relaxed);
        // SAFETY: this thread has taken it.
        assert_eq!(unsafe { *word.take_among_processes(gettid()) }, 7);
        assert_eq!(word.state.load(Ordering::Relaxed), gettid());
        std::thread::scope(|s| {
            let next = s.spawn(|| word.take_among_processes(gettid()).addr());
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!next.is_finished(), "taken from a thread that lives");
            // SAFETY: this thread has it.
            unsafe { word.free() };
            next.join().unwrap();
        });
        assert_ne!(word.state.load(Ordering::Relaxed), FREE);
    }

    #[test]
    fn counts_exactly_under_contention() {
        static COUNT: Held<u64> = Held::new(0);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for _ in 0..20_000 {
                        let word = COUNT.take();
                        // SAFETY: this thread has taken it.
                        unsafe {
                            *word += 1;
                            COUNT.free();
                        }
                    }
                });
            }
        });
        // SAFETY: nobody else is left.
        assert_eq!(unsafe { *COUNT.take() }, 80_000);
    }
}
