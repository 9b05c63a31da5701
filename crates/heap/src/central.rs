//! The part of the heap that all threads share: batches of small blocks, runs of
//! pages, segments. One thread at a time, in recorded order.

use crate::cache::{Cache, Node};
use crate::class::{self, CLASSES};
use crate::runs::{Run, Runs};
use crate::segment::{PAGE, Use};
use crate::units::Units;
use crate::{Ground, Shared};
use core::ops::Range;
use core::ptr::null_mut;

/// What a cache that has no block of a class is given.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refill {
    /// A full batch.
    Batch(*mut Node),
    /// Room for so many new blocks.
    Fresh(Room),
    /// There is no memory.
    None,
}

/// Room that nobody has used yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) clean: bool,
}

/// What all threads share.
#[derive(Debug)]
pub struct Central {
    batches: [*mut Node; CLASSES],
    pub(crate) runs: Runs,
    pub(crate) units: Units,
    /// For threads that have none of their own.
    own: Cache,
    /// Caches of threads that ended.
    left: *mut Cache,
}

// SAFETY: the pointers lead to memory of the heap, used by whoever uses this.
unsafe impl Send for Central {}

impl Central {
    /// An empty heap in this range, which must begin at a multiple of four megabytes.
    pub const fn new(range: Range<usize>) -> Self {
        Self {
            batches: [null_mut(); CLASSES],
            runs: Runs::new(),
            units: Units::new(range),
            own: Cache::new(),
            left: null_mut(),
        }
    }

    /// Leaves out what lies before `start`, a multiple of four megabytes, as far as it was not used yet.
    pub fn begin_at(&mut self, start: usize) {
        self.units.begin_at(start);
    }

    /// The cache of a thread that ended.
    pub fn take_cache(&mut self) -> Option<&'static mut Cache> {
        // SAFETY: a cache that was left belongs to nobody; caches are never freed.
        let cache = unsafe { self.left.as_mut() }?;
        self.left = core::mem::replace(&mut cache.next, null_mut());
        Some(cache)
    }

    /// Keeps the cache of a thread that ends, with all that is in it.
    pub fn leave_cache(&mut self, cache: &'static mut Cache) {
        cache.next = self.left;
        self.left = cache;
    }

    pub(crate) fn refill(&mut self, class: usize, ground: &mut dyn Ground) -> Refill {
        let batch = self.batches[class];
        if !batch.is_null() {
            // SAFETY: the first block of a batch names the next batch.
            self.batches[class] = unsafe { (*batch).next_batch };
            return Refill::Batch(batch);
        }
        let bytes = class::run_bytes(class);
        let Some(Run { address, clean }) = self.runs.take(bytes / PAGE, 1, &mut self.units, ground) else {
            return Refill::None;
        };
        // SAFETY: the run that was just taken.
        unsafe { Runs::mark(address, bytes / PAGE, Use::Small, class) };
        let blocks = bytes / class::size(class);
        Refill::Fresh(Room { start: address, end: address + blocks * class::size(class), clean })
    }

    pub(crate) fn give(&mut self, class: usize, batch: *mut Node) {
        // SAFETY: the caller gives free blocks.
        unsafe { (*batch).next_batch = self.batches[class] };
        self.batches[class] = batch;
    }

    /// Runs `operation` on the cache for threads that have none.
    pub(crate) fn with_own<R>(
        &mut self,
        ground: &mut dyn Ground,
        operation: impl FnOnce(&mut Cache, &mut Inside<'_>) -> R,
    ) -> R {
        let mut cache = core::mem::take(&mut self.own);
        let result = operation(&mut cache, &mut Inside { central: self, ground });
        self.own = cache;
        result
    }
}

/// The shared part for who has it already.
pub(crate) struct Inside<'a> {
    central: &'a mut Central,
    ground: &'a mut dyn Ground,
}

impl Shared for Inside<'_> {
    fn with<R>(&mut self, operation: impl FnOnce(&mut Central, &mut dyn Ground) -> R) -> R {
        operation(self.central, self.ground)
    }
}
