//! The heap of a program whose environment is recorded.
//!
//! A replay must give out the same addresses. An allocator with locks of its own
//! gives them out in the order in which its threads happen to come; recording that
//! order at each call would cost as much as the call. So here a thread allocates
//! and frees in a cache of its own: what it gets follows from its own calls. Only
//! when a list of the cache is empty or full, once in some dozens of calls, does a
//! batch of blocks change hands with the part that all threads share, and the
//! caller of this crate makes that an event of the recorded order.
//!
//! Three rules keep it a function of that order:
//!
//! - A block goes to the cache of the thread that frees it, whoever allocated it.
//!   There is no list on which one thread leaves something for another to find.
//! - Nothing is decided by an address that the kernel chose, by time or by what
//!   the kernel says of memory: all of it lies in one fixed range.
//! - What the shared part does is done whole within one event: [`Shared`] is where
//!   the caller puts the order.
//!
//! Small blocks are in forty classes by size (`class.rs`), carved out of runs of
//! pages; larger ones are runs of pages (`runs.rs`) in segments of four megabytes
//! (`segment.rs`); what does not fit into a segment is a run of segments
//! (`units.rs`). Magazines that change hands as a whole are Bonwick & Adams 2001.
//!
//! Apart from the runtime because it depends on nothing: it is tested alone,
//! against a naive oracle.
#![no_std]

#[cfg(test)]
extern crate std;

mod cache;
mod central;
mod class;
mod large;
mod operations;
mod runs;
mod segment;
#[cfg(test)]
mod tests;
mod units;

pub use cache::Cache;
pub use central::Central;
pub use operations::{ALIGN, allocate, allocate_aligned, allocate_at_hand, free, free_at_hand, reallocate, usable};

/// Where the heap lies: clear of what the kernel gives to programs, and of the ranges of sanitizers.
pub const RANGE: core::ops::Range<usize> = 0x3000_0000_0000..0x4000_0000_0000;

/// Whether a pointer is one of the heap's.
#[inline]
pub fn owns(pointer: *const u8) -> bool {
    RANGE.contains(&pointer.addr())
}

/// Memory from the system, always at addresses that the heap names.
pub trait Ground {
    /// Backs a range with memory that reads as zero. `false` if the system refuses.
    fn map(&mut self, address: usize, bytes: usize) -> bool;
    /// Gives the pages of a mapped range back; they read as zero afterwards.
    fn discard(&mut self, address: usize, bytes: usize);
    /// Moves the pages of one mapped range to another, without copying if it can; what the first holds afterwards
    /// reads as zero.
    fn relocate(&mut self, from: usize, to: usize, bytes: usize);
}

/// The way to the part that all threads share: the caller orders its uses, one at a time.
pub trait Shared {
    /// Runs `operation` on the shared part.
    fn with<R>(&mut self, operation: impl FnOnce(&mut Central, &mut dyn Ground) -> R) -> R;
}

/// What a block was given out as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its address, aligned to 16.
    pub address: *mut u8,
    /// It reads as zero.
    pub zero: bool,
}

/// A pointer that is no block in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misuse;
