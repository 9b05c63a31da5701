//! Atomics and the futex, replaceable by loom's models (`--cfg loom`).
//!
//! The lock-free protocols of the runtime, [`crate::lock`], [`crate::wake`] and
//! [`crate::rounds`], are written against this module and nothing else, so that
//! loom can run them through every interleaving.

#[cfg(not(loom))]
mod real {
    pub use crate::syscall::{futex_wait, futex_wake};
    pub use core::cell::UnsafeCell;
    pub use core::hint::spin_loop;
    pub use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence, fence};

    /// What tells the calling thread from all others that live; not 0.
    #[inline(always)]
    pub fn own_thread() -> u64 {
        crate::tls::thread_pointer() as u64
    }

    /// Lets others have the processor.
    pub fn yield_now() {
        crate::syscall::sched_yield();
    }
}

#[cfg(loom)]
mod model {
    pub use core::sync::atomic::compiler_fence;
    pub use loom::hint::spin_loop;
    pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
    use loom::sync::{Condvar, Mutex};
    pub use loom::thread::yield_now;

    loom::lazy_static! {
        static ref QUEUE: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    /// What tells the calling thread from all others that live; not 0.
    pub fn own_thread() -> u64 {
        use core::sync::atomic::AtomicU64;
        static THREADS: AtomicU64 = AtomicU64::new(1);
        loom::thread_local! {
            static OWN: u64 = THREADS.fetch_add(1, Ordering::Relaxed);
        }
        OWN.with(|own| *own)
    }

    /// The kernel's promise: the comparison and going to sleep are one step against any wake.
    pub fn futex_wait(word: &AtomicU32, expected: u32, _milliseconds: Option<u32>) -> isize {
        let held = QUEUE.0.lock().unwrap();
        if word.load(Ordering::SeqCst) == expected {
            drop(QUEUE.1.wait(held).unwrap());
        }
        0
    }

    /// All words share one queue: a sleeper may wake for nothing, which a futex allows too.
    pub fn futex_wake(_word: &AtomicU32, _count: u32) {
        let _held = QUEUE.0.lock().unwrap();
        QUEUE.1.notify_all();
    }
}

#[cfg(loom)]
pub use model::*;
#[cfg(not(loom))]
pub use real::*;
