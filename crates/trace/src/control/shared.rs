//! What processes of a session share besides: clocks of objects in memory that they all map, and files that are such memory.
//!
//! Apart because nobody but the runtime looks into it.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// The clock of an object in memory shared between processes.
#[derive(Debug)]
#[repr(C)]
pub struct SharedObject {
    /// Hash of device, inode and offset; 0 free. Set once.
    pub key: AtomicU64,
    /// Lamport clock (recording and replay).
    pub clock: AtomicU64,
    /// Last event in a replay: thread << 40 | events.
    pub last: AtomicU64,
}

/// What orders instructions on a piece of shared memory.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct SharedLine {
    /// The kernel's number of the thread that is in such an instruction; 0 for none (recording).
    pub holder: AtomicU32,
    /// As of a [`SharedObject`].
    pub clock: AtomicU64,
    /// As there.
    pub last: AtomicU64,
}

/// A file that is mapped to be shared and written. Its index says where it lies in the memory for all of them.
#[derive(Debug)]
#[repr(C)]
pub struct SharedFile {
    /// Hash of what identifies the file; 0 free. Set once.
    pub key: AtomicU64,
    /// Its inode; 0 until whoever took the place has said it.
    pub inode: AtomicU64,
    /// What lies before this offset, mappings have laid there (replay).
    pub laid: AtomicU64,
    /// 1 while somebody does.
    pub busy: AtomicU32,
}
