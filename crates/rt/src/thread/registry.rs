//! Where blocks are found by `pthread_t`, and where free ones wait.
//!
//! Apart because only here blocks change hands between threads.

use super::{FORGOTTEN, Thread};
use core::ptr::null_mut;
use core::sync::atomic::Ordering;
use relive_sys::lock::Lock;
use relive_sys::syscall;

pub(super) const BUCKETS: usize = 1024;

pub(super) struct Registry {
    pub(super) buckets: [*mut Thread; BUCKETS],
    pub(super) free: *mut Thread,
    pub(super) unclaimed: u32,
}

// SAFETY: the pointers lead to blocks of the arena, reached under the lock only.
unsafe impl Send for Registry {}

pub(super) static REGISTRY: Lock<Registry> =
    Lock::new(Registry { buckets: [null_mut(); BUCKETS], free: null_mut(), unclaimed: 0 });

pub(super) fn bucket(handle: usize) -> usize {
    (handle as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) as usize >> (usize::BITS - BUCKETS.trailing_zeros())
}

impl Registry {
    pub(super) unsafe fn unlink(&mut self, block: *mut Thread) {
        // SAFETY: the caller's promise: a live block; the list is ours.
        unsafe {
            let mut at = &raw mut self.buckets[bucket((*block).handle)];
            while !(*at).is_null() {
                if *at == block {
                    *at = (*block).next;
                    return;
                }
                at = &raw mut (**at).next;
            }
        }
    }

    pub(super) unsafe fn put_free(&mut self, block: *mut Thread) {
        // SAFETY: the caller's promise: nobody else uses the block.
        unsafe {
            (*block).handle = 0;
            (*block).next = self.free;
        }
        self.free = block;
    }

    /// Frees the blocks of detached threads that the kernel no longer knows.
    pub(super) fn sweep(&mut self) {
        let pid = crate::runtime::pid();
        let mut left = 0;
        for i in 0..BUCKETS {
            let mut at = self.buckets[i];
            while !at.is_null() {
                // SAFETY: blocks in the registry are live; a detached thread that has ended uses its block no more.
                unsafe {
                    let next = (*at).next;
                    if (*at).detached && (*at).tid != 0 && !syscall::thread_exists(pid, (*at).tid) {
                        FORGOTTEN.fetch_max((*at).clock_base(), Ordering::AcqRel);
                        self.unlink(at);
                        self.put_free(at);
                    } else if (*at).detached {
                        left += 1;
                    }
                    at = next;
                }
            }
        }
        self.unclaimed = left;
    }
}
