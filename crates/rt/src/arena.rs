//! Memory of the runtime's own: fixed-size blocks from anonymous mappings.
//!
//! The program's heap is off limits: its allocator may be interposed, may take
//! locks that the gate is called under, and its addresses must not depend on us.

use relive_sys::lock::Lock;
use relive_sys::syscall;

const SLAB_BYTES: usize = 64 * 1024;

#[derive(Debug)]
struct Slab {
    next: usize,
    end: usize,
}

static SLAB: Lock<Slab> = Lock::new(Slab { next: 0, end: 0 });

/// A zeroed block of `bytes`, aligned to 64; never given back to the system. `None` if memory is exhausted.
pub fn allocate(bytes: usize) -> Option<*mut u8> {
    let bytes = bytes.next_multiple_of(64);
    assert!(bytes <= SLAB_BYTES, "blocks of the arena are small");
    let mut slab = SLAB.lock();
    if slab.end - slab.next < bytes {
        let fresh = syscall::mmap(SLAB_BYTES, syscall::MAP_PRIVATE_ANONYMOUS, -1, 0);
        if fresh < 0 {
            return None;
        }
        (slab.next, slab.end) = (fresh as usize, fresh as usize + SLAB_BYTES);
    }
    let block = slab.next as *mut u8;
    slab.next += bytes;
    Some(block)
}

/// Frees the arena's lock in a fork child.
///
/// # Safety
/// Only in a fork child while it has one thread.
pub unsafe fn reset_after_fork() {
    // SAFETY: the caller's promise.
    unsafe { SLAB.reset_after_fork() };
}
