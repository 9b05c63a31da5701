//! A thread's own part of the heap.
//!
//! Of each class it has two lists: the one it works with, and a full batch behind
//! it. So a thread that frees and allocates around the limit does not hand the
//! same batch to and fro.

use crate::central::{Refill, Room};
use crate::class::{self, CLASSES};
use crate::{Block, Misuse, Shared};
use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use core::ptr::null_mut;

/// A free block.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) next: *mut Node,
    /// In the first block of a batch that nobody has: the next batch.
    pub(crate) next_batch: *mut Node,
}

#[derive(Clone, Copy, Debug)]
struct Bin {
    head: *mut Node,
    count: u32,
    full: *mut Node,
    room: Room,
}

impl Bin {
    const EMPTY: Self =
        Self { head: null_mut(), count: 0, full: null_mut(), room: Room { start: 0, end: 0, clean: false } };
}

/// The blocks that a thread has at hand.
#[derive(Debug)]
pub struct Cache {
    bins: [Bin; CLASSES],
    /// Blocks whose freeing was put off.
    late: *mut Node,
    pub(crate) next: *mut Cache,
}

impl Default for Cache {
    fn default() -> Self {
        Self::new()
    }
}

/// The next block to be given out was freed long ago, and is in no cache of the processor's any more: it comes there
/// while the program does something else.
#[inline]
fn look_at(node: *const Node) {
    // SAFETY: changes nothing, and reads nothing that could fault: any address is allowed.
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(node.cast());
    }
}

impl Cache {
    /// An empty one.
    pub const fn new() -> Self {
        Self { bins: [Bin::EMPTY; CLASSES], late: null_mut(), next: null_mut() }
    }

    /// Frees a block at the next [`crate::free`] with this cache: without a use of what is shared.
    ///
    /// # Safety
    /// As for that.
    pub unsafe fn free_later(&mut self, block: *mut u8) {
        let node = block.cast::<Node>();
        // SAFETY: the caller's promise: a block has room for a node.
        unsafe { (*node).next = self.late };
        self.late = node;
    }

    /// A block whose freeing was put off.
    pub(crate) fn late(&mut self) -> Option<*mut u8> {
        let node = self.late;
        // SAFETY: null, or a block on the list.
        self.late = unsafe { node.as_ref()?.next };
        Some(node.cast())
    }

    #[inline]
    pub(crate) fn take(&mut self, class: usize, shared: &mut impl Shared) -> Option<Block> {
        let address = self.take_at_hand(class);
        if address.is_null() {
            return self.take_slowly(class, shared);
        }
        Some(Block { address, zero: false })
    }

    /// A block of the list that it works with, or null: what is shared stays as it is.
    #[inline]
    pub(crate) fn take_at_hand(&mut self, class: usize) -> *mut u8 {
        let bin = &mut self.bins[class];
        let node = bin.head;
        if !node.is_null() {
            // SAFETY: a free block on the list.
            bin.head = unsafe { (*node).next };
            bin.count -= 1;
            look_at(bin.head);
        }
        node.cast()
    }

    #[cold]
    #[inline(never)]
    fn take_slowly(&mut self, class: usize, shared: &mut impl Shared) -> Option<Block> {
        let bin = &mut self.bins[class];
        if bin.full.is_null() && bin.room.start == bin.room.end {
            match shared.with(|central, ground| central.refill(class, ground)) {
                Refill::Batch(batch) => bin.full = batch,
                Refill::Fresh(room) => bin.room = room,
                Refill::None => return None,
            }
        }
        if bin.full.is_null() {
            let address = bin.room.start as *mut u8;
            bin.room.start += class::size(class);
            return Some(Block { address, zero: bin.room.clean });
        }
        let node = core::mem::replace(&mut bin.full, null_mut());
        // SAFETY: a free block of the batch.
        bin.head = unsafe { (*node).next };
        bin.count = class::batch(class) - 1;
        Some(Block { address: node.cast(), zero: false })
    }

    /// [`Cache::put`] onto the list that it works with, unless that takes more. `false` if nothing was done.
    ///
    /// # Safety
    /// As for that.
    #[inline]
    pub(crate) unsafe fn put_at_hand(&mut self, class: usize, block: *mut u8) -> bool {
        let bin = &mut self.bins[class];
        let node = block.cast::<Node>();
        let count = bin.count + 1;
        if node == bin.head || count == class::batch(class) || !self.late.is_null() {
            return false;
        }
        // SAFETY: the caller's promise.
        unsafe { (*node).next = bin.head };
        (bin.head, bin.count) = (node, count);
        true
    }

    /// Takes a block back.
    ///
    /// # Safety
    /// A block of the class that nobody uses any more.
    #[inline]
    pub(crate) unsafe fn put(&mut self, class: usize, block: *mut u8, shared: &mut impl Shared) -> Result<(), Misuse> {
        let bin = &mut self.bins[class];
        let node = block.cast::<Node>();
        if node == bin.head {
            return Err(Misuse);
        }
        // SAFETY: the caller's promise.
        unsafe { (*node).next = bin.head };
        bin.head = node;
        bin.count += 1;
        if bin.count == class::batch(class) {
            let full = core::mem::replace(&mut bin.full, node);
            (bin.head, bin.count) = (null_mut(), 0);
            if !full.is_null() {
                shared.with(|central, _| central.give(class, full));
            }
        }
        Ok(())
    }
}
