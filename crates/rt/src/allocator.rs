//! Memory for what `alloc` gives the translator's decoder and the race detector: our
//! own mappings, never the program's heap.
//!
//! Apart from `arena`, whose blocks are never given back. Blocks have a power of two of
//! bytes; what is freed is used again for its size, nothing goes to the system.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::null_mut;
use relive_sys::lock::Lock;
use relive_sys::syscall;

const SMALLEST: usize = 4;
const CLASSES: usize = 40;
/// Mapped at a time.
const CHUNK_BYTES: usize = 1 << 20;

#[derive(Debug)]
struct Blocks {
    /// Free blocks of each size, each with the next one's address in its first word.
    free: [usize; CLASSES],
    next: usize,
    end: usize,
}

static BLOCKS: Lock<Blocks> = Lock::new(Blocks { free: [0; CLASSES], next: 0, end: 0 });

/// The allocator of whatever library has the runtime in it.
#[derive(Debug)]
pub struct Own;

/// Runs `fork` while nobody allocates: the child finds whole lists, and their lock free.
pub(crate) fn around_fork(fork: impl FnOnce()) {
    let blocks = BLOCKS.lock();
    fork();
    drop(blocks);
}

/// The power of two of a block's bytes.
fn class(layout: Layout) -> usize {
    let bytes = layout.size().max(layout.align()).max(1 << SMALLEST);
    bytes.next_power_of_two().trailing_zeros() as usize
}

impl Blocks {
    fn take(&mut self, class: usize) -> usize {
        let first = self.free[class];
        if first != 0 {
            // SAFETY: a free block of ours, whose first word is the next one's address.
            self.free[class] = unsafe { (first as *const usize).read() };
            return first;
        }
        let bytes = 1usize << class;
        if bytes >= CHUNK_BYTES {
            return usize::try_from(syscall::mmap(bytes, syscall::MAP_PRIVATE_ANONYMOUS, -1, 0)).unwrap_or(0);
        }
        let mut at = self.next.next_multiple_of(bytes);
        if at + bytes > self.end {
            let fresh = syscall::mmap(CHUNK_BYTES, syscall::MAP_PRIVATE_ANONYMOUS, -1, 0);
            let Ok(fresh) = usize::try_from(fresh) else { return 0 };
            self.end = fresh + CHUNK_BYTES;
            at = fresh.next_multiple_of(bytes);
            if at + bytes > self.end {
                return 0;
            }
        }
        self.next = at + bytes;
        at
    }
}

// SAFETY: blocks are as large as their class, aligned to it, and nobody else's until they are given back.
unsafe impl GlobalAlloc for Own {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let class = class(layout);
        if class >= CLASSES { null_mut() } else { BLOCKS.lock().take(class) as *mut u8 }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let class = class(layout);
        let mut blocks = BLOCKS.lock();
        // SAFETY: the block was given out by `alloc` for this layout, and has room for a word.
        unsafe { block.cast::<usize>().write(blocks.free[class]) };
        blocks.free[class] = block.addr();
    }
}
