//! The locks that are held from before an instruction until behind it.
//!
//! Apart from other locks because what frees one is a few instructions that change no
//! flag: so nobody sleeps for it, who would have to be woken.

use crate::primitive::{AtomicU32, Ordering};
use crate::syscall;
use core::cell::UnsafeCell;

const FREE: u32 = 0;
const TAKEN: u32 = 1;

/// A lock with a word that its holder may change.
#[derive(Debug)]
#[repr(C)]
pub struct Held {
    /// First: its address is the lock's.
    state: AtomicU32,
    value: UnsafeCell<u64>,
}

// SAFETY: the value is reached by the lock's holder alone.
unsafe impl Sync for Held {}

impl Held {
    /// A free one.
    pub const fn new() -> Self {
        Self { state: AtomicU32::new(FREE), value: UnsafeCell::new(0) }
    }

    /// Waits for it: for the length of an instruction, or until a holder without a processor has one again. Returns the word.
    pub fn take(&self) -> *mut u64 {
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

    /// Frees it.
    ///
    /// # Safety
    /// Only by the holder, or in a fork child whose one thread holds none.
    pub unsafe fn free(&self) {
        self.state.store(FREE, Ordering::Release);
    }
}

impl Default for Held {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::Held;

    #[test]
    fn counts_exactly_under_contention() {
        static COUNT: Held = Held::new();
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
