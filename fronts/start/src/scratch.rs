//! Memory that the starter needs until the program runs.

use crate::fail;
use relive_sys::start::SCRATCH;
use relive_sys::syscall::number::MMAP;
use relive_sys::syscall::{self, MAP_PRIVATE_ANONYMOUS, syscall6};

/// Arguments and environment have 6 MiB at most; the rest is small.
const BYTES: usize = 16 << 20;
const READ_WRITE: usize = 3;
const MAP_FIXED_NOREPLACE: usize = 0x10_0000;

/// Memory given out in a row, never given back piece by piece.
#[derive(Debug)]
pub(crate) struct Scratch {
    next: usize,
}

/// Maps zeroed memory at a place where nothing lies yet.
pub(crate) fn map(at: usize, bytes: usize, flags: usize, protection: usize) -> isize {
    let flags = MAP_PRIVATE_ANONYMOUS as usize | MAP_FIXED_NOREPLACE | flags;
    // SAFETY: a new mapping where nothing lies, or none.
    unsafe { syscall6(MMAP, at, bytes, protection, flags, usize::MAX, 0) }
}

/// Maps it readable and writable, or ends.
pub(crate) fn need(at: usize, bytes: usize, flags: usize) {
    let found = map(at, bytes, flags, READ_WRITE);
    if found != at as isize {
        fail(c"the program", "its memory can't be mapped", found);
    }
}

impl Scratch {
    pub(crate) fn new() -> Self {
        need(SCRATCH, BYTES, 0);
        Self { next: SCRATCH }
    }

    /// Zeroed memory, aligned to 16 bytes.
    pub(crate) fn take(&mut self, bytes: usize) -> *mut u8 {
        let at = self.next;
        self.next = (at + bytes).next_multiple_of(16);
        assert!(self.next <= SCRATCH + BYTES, "the kernel limits arguments");
        at as *mut u8
    }

    /// Gives everything back.
    ///
    /// # Safety
    /// Nothing of it may be used any more.
    pub(crate) unsafe fn give_back() {
        // SAFETY: the caller's promise.
        unsafe { syscall::munmap(SCRATCH, BYTES) };
    }
}
