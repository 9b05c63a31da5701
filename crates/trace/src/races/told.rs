//! Numbers of the records in which a replay tells what it found.
//!
//! Apart from what they mean, which stands at the head of `relive-findings`' `wire.rs`: the
//! process that writes them needs no more than these.

/// `relvfind` as a word: the first of the first record.
pub const MAGIC: u64 = u64::from_le_bytes(*b"relvfind");
/// The version of the records.
pub const VERSION: u64 = 3;
/// Most words of a stack in a snapshot.
pub const STACK_WORDS_MAX: usize = 1024;

/// The tags of records.
pub mod tag {
    /// What this is.
    pub const HEADER: u64 = 1;
    /// A mapped file.
    pub const MODULE: u64 = 2;
    /// What tells a file's build from another.
    pub const BUILD_ID: u64 = 3;
    /// A thread.
    pub const THREAD: u64 = 4;
    /// A race.
    pub const RACE: u64 = 5;
    /// One of its accesses.
    pub const ACCESS: u64 = 6;
    /// A lock that was held.
    pub const LOCK: u64 = 7;
    /// A synchronisation near to an access.
    pub const SYNC: u64 = 8;
    /// A heap block.
    pub const BLOCK: u64 = 9;
    /// Who allocated or freed it.
    pub const ORIGIN: u64 = 10;
    /// Return addresses.
    pub const STACK: u64 = 11;
    /// Where they stand.
    pub const SLOTS: u64 = 12;
    /// A name.
    pub const TEXT: u64 = 13;
    /// Something that was not observed.
    pub const UNOBSERVED: u64 = 14;
    /// The replay left its recording.
    pub const DIVERGED: u64 = 15;
    /// Nothing is missing.
    pub const END: u64 = 16;
    /// Registers, and what stands on a stack.
    pub const SNAPSHOT: u64 = 17;
    /// Racing bytes as an access found or left them.
    pub const CONTENT: u64 = 18;
    /// Bytes that a race has besides.
    pub const MORE: u64 = 19;
}
