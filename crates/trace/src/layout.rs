//! The data file of one process: a header page, then chunks, each owned by one
//! thread, mapped shared and written in place.
//!
//! Whatever is in the mapping survives the process: there is no flush, and no
//! moment at which an event that took effect is only in private memory.
//!
//! ```text
//! window 0 (1 MiB)                                  window 1 …
//! ┌────────────┬───────┬───────┬─────────┬───────┐ ┌───────┬──────
//! │ FileHeader │ chunk │ chunk │ chunk   │ zeros │ │ chunk │ …
//! │ 4096 bytes │       │       │         │       │ │       │
//! └────────────┴───────┴───────┴─────────┴───────┘ └───────┴──────
//! ```
//!
//! A chunk never crosses a window. Its header is in place before the next chunk
//! can be allocated, so a reader walks a window by [`ChunkHeader::size`] until a
//! zero magic, then goes on at the next window. Everything is little endian.

use core::mem::offset_of;
use core::ops::RangeInclusive;

/// First eight bytes of a data file.
pub const FILE_MAGIC: [u8; 8] = *b"RELIVE\x1a\x01";
/// Version of everything in this crate that is stored; raised with any change.
pub const FORMAT_VERSION: u32 = 12;
/// Since then the calls that carry something from thread to thread are events where the environment is recorded, and
/// faults that the program handles are counted: what was recorded with its environment before can't be replayed any more.
pub const ENVIRONMENT_SINCE: u32 = 3;
/// Since then recordings tell of locks whether they follow another thread's event ([`crate::record::Record::Behind`]).
pub const LOCKS_SINCE: u32 = 5;
/// Since then they do so of instructions that change memory indivisibly.
pub const ATOMICS_TELL_SINCE: u32 = 7;
/// Since then the heap of a recorded environment begins above what lies in the lowest two gigabytes, modulo the 64 GiB of
/// the race detector's window.
pub const HIGH_HEAP_SINCE: u32 = 8;
/// Since then the break of a program that is linked to a fixed address, with its environment recorded, starts where that ends.
pub const NEAR_BREAK_SINCE: u32 = 9;
/// Since then calls in which time passed join the clocks of all threads, and tell which one they joined.
pub const LAPSES_SINCE: u32 = 9;
/// Since then a mapping of a file that is written and shared is an event of that file, too.
pub const FILES_SINCE: u32 = 9;
/// Since then looking up a symbol comes behind libraries that others open, and before.
pub const LOOK_UPS_SINCE: u32 = 10;
/// Since then each handler that `exit` runs comes behind what other threads registered before it was chosen.
pub const HANDLERS_SINCE: u32 = 11;
/// Since then look-ups of users and the like, for which libc opens modules, come behind libraries that others open, and before.
pub const MODULES_SINCE: u32 = 11;
/// Since then the program's backtraces are without our own frames.
pub const BACKTRACES_SINCE: u32 = 11;
/// Since then a fork beside other threads, with the environment recorded, comes behind streams that others opened, and before.
pub const FORKS_SINCE: u32 = 11;
/// Since then who looks a function up in libc itself is given the one that is recorded, and `_Unwind_Backtrace` leaves our own frames out.
pub const FOUND_SINCE: u32 = 12;
/// Versions that a reader takes. Version 1 has no system calls, version 2 less order in them than
/// [`ENVIRONMENT_SINCE`] says, version 3 no check values of what writes gave away,
/// version 4 not what [`LOCKS_SINCE`] says, version 5 no level but the first, version 6 not what [`ATOMICS_TELL_SINCE`] says,
/// version 7 not what [`HIGH_HEAP_SINCE`] does, version 8 not what [`NEAR_BREAK_SINCE`],
/// [`LAPSES_SINCE`] and [`FILES_SINCE`] say, version 9 not where calls change files that are
/// mapped, nor what [`LOOK_UPS_SINCE`] says, version 10 not what
/// [`HANDLERS_SINCE`], [`MODULES_SINCE`], [`FORKS_SINCE`] and [`BACKTRACES_SINCE`] say, version 11 not what [`FOUND_SINCE`] says.
pub const READABLE: RangeInclusive<u32> = 1..=FORMAT_VERSION;
/// Unit of mapping and of growth, in bytes. A chunk never crosses a multiple of it.
pub const WINDOW_BYTES: u64 = 1 << 20;
/// Bytes before the first chunk.
pub const FILE_HEADER_BYTES: u64 = 4096;
/// `ChunkHeader::magic`, `"CHNK"`.
pub const CHUNK_MAGIC: u32 = u32::from_le_bytes(*b"CHNK");
/// Sizes of a thread's first, second, … chunk in bytes, headers included; the last repeats.
/// Small at first: a hundred thousand short threads must not cost gigabytes.
pub const CHUNK_SIZES: [u32; 4] = [256, 1024, 4096, 16384];
/// No thread, no parent.
pub const NONE: u32 = u32::MAX;

/// How the recording of a process ended, in [`FileHeader::end`].
pub mod end {
    /// The process was killed, or still ran when the recording closed.
    pub const LIVE: u32 = 0;
    /// It ran its exit handlers or called `_exit`.
    pub const EXITED: u32 = 1;
    /// It replaced its image by exec.
    pub const EXECUTED: u32 = 2;
    /// Recording stopped before the process did; [`super::FileHeader::stop_reason`] says why.
    pub const STOPPED: u32 = 3;
}

/// Why recording stopped early, in [`FileHeader::stop_reason`].
pub mod stop {
    /// It did not.
    pub const NONE: u32 = 0;
    /// The disk is full or a limit on file size was met.
    pub const NO_SPACE: u32 = 1;
    /// The launching process is gone.
    pub const NO_LAUNCHER: u32 = 2;
    /// The recording was closed while this process went on.
    pub const CLOSED: u32 = 3;
    /// Something that cannot be recorded was met; the message is on the program's stderr.
    pub const REFUSED: u32 = 4;
    /// The recording reached the length or size that it was to have at most.
    pub const LIMIT: u32 = 5;
}

/// The first page of a data file.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FileHeader {
    /// [`FILE_MAGIC`].
    pub magic: [u8; 8],
    /// [`FORMAT_VERSION`].
    pub version: u32,
    /// Index of the process image in the recording; the file is `p{process:05}.trace`.
    pub process: u32,
    /// Process id in the recording.
    pub pid: u32,
    /// Index of the thread that this image starts with.
    pub main_thread: u32,
    /// One of [`end`].
    pub end: u32,
    /// One of [`stop`].
    pub stop_reason: u32,
    /// Exit code, if `end` is `EXITED`.
    pub exit_code: u32,
    /// Thread that ran `exit` or `exec`, or [`NONE`].
    pub exit_thread: u32,
    /// If `end` is `STOPPED`: events with a later timestamp, in any process, are not part of the recording.
    /// A cut by timestamps is consistent: what it keeps never depends on what it drops.
    pub stop_clock: u64,
}

/// `ChunkHeader::flags`: the thread returned from its start routine, called
/// `pthread_exit` or was cancelled. Destructors may still run events.
pub const THREAD_FINISHED: u8 = 1;
/// `ChunkHeader::flags`: locks that follow an old event of another thread may be untold; see [`crate::record::Record::Behind`].
pub const LOCKS_UNTOLD: u8 = 2;
/// `ChunkHeader::flags`: there was such a lock since the last check hash.
pub const LOCKS_MET: u8 = 4;
/// All bits of `ChunkHeader::flags`.
pub const CHUNK_FLAGS: u8 = THREAD_FINISHED | LOCKS_UNTOLD | LOCKS_MET;

/// The header of a chunk, one cache line. The live state of the thread stands
/// here, not in private memory: this is what a kill leaves behind.
///
/// The last chunk of a thread tells how far it got: the events after the last
/// stored record are unit increments, `events` minus the decoded position many.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ChunkHeader {
    /// [`CHUNK_MAGIC`]; zero where no chunk was allocated.
    pub magic: u32,
    /// Bytes of this chunk, header included; a multiple of 64.
    pub size: u32,
    /// Index of the owning thread in the recording (over all processes).
    pub thread: u32,
    /// How-manieth chunk of the thread, from 0.
    pub sequence: u32,
    /// Payload bytes written.
    pub used: u32,
    /// Check hash after the last event (`order::CheckHash`).
    pub hash: u32,
    /// Events of the thread so far, over all its chunks.
    pub events: u64,
    /// Timestamp of the thread's last event.
    pub clock: u64,
    /// Kind of the open run of failures, if `run_count` is not 0.
    pub run_kind: u8,
    /// [`THREAD_FINISHED`].
    pub flags: u8,
    /// Result of each failure of the open run.
    pub run_result: i16,
    /// Length of the open run of failures, not yet in the payload.
    pub run_count: u32,
    /// Index of the creating thread, or [`NONE`] for the first of all.
    pub parent: u32,
    /// How-manieth child of `parent` this thread is, from 0.
    pub child_number: u32,
    /// Clock the thread started with: the timestamp of its creation.
    pub start_clock: u64,
}

/// Bytes of a chunk header.
pub const CHUNK_HEADER_BYTES: u32 = 64;

/// The largest timestamp that any chunk of a data file names: how far its process came. Also for the file of a process
/// that was killed. `read` fills the bytes at an offset of the file and says whether it has so many there.
pub fn latest_clock(mut read: impl FnMut(u64, &mut [u8; CHUNK_HEADER_BYTES as usize]) -> bool) -> u64 {
    let mut head = [0; CHUNK_HEADER_BYTES as usize];
    let (mut at, mut latest) = (FILE_HEADER_BYTES, 0);
    while read(at, &mut head) {
        match chunk_size(&head).filter(|size| at % WINDOW_BYTES + size <= WINDOW_BYTES) {
            Some(size) => {
                let clock = offset_of!(ChunkHeader, clock);
                latest = latest.max(u64::from(word(&head, clock)) | u64::from(word(&head, clock + 4)) << 32);
                at += size;
            }
            None => at = (at / WINDOW_BYTES + 1) * WINDOW_BYTES,
        }
    }
    latest
}

/// The bytes of the chunk that starts with `head`, its first eight bytes or more; `None` if no chunk starts there.
///
/// # Panics
/// If `head` is shorter.
pub fn chunk_size(head: &[u8]) -> Option<u64> {
    let size = word(head, offset_of!(ChunkHeader, size));
    let valid = word(head, offset_of!(ChunkHeader, magic)) == CHUNK_MAGIC && size >= CHUNK_HEADER_BYTES;
    valid.then_some(u64::from(size))
}

fn word(head: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes([head[offset], head[offset + 1], head[offset + 2], head[offset + 3]])
}

const _: () = assert!(size_of::<ChunkHeader>() == CHUNK_HEADER_BYTES as usize);
const _: () = assert!(size_of::<FileHeader>() == 48);
const _: () = assert!(core::mem::offset_of!(ChunkHeader, events) == 24);
const _: () = assert!(core::mem::offset_of!(ChunkHeader, clock) == 32);
const _: () = assert!(core::mem::offset_of!(ChunkHeader, start_clock) == 56);

#[cfg(test)]
mod tests {
    use super::{CHUNK_MAGIC, ChunkHeader, FILE_HEADER_BYTES, WINDOW_BYTES, latest_clock};
    use core::mem::offset_of;

    fn put(file: &mut [u8], at: u64, size: u32, clock: u64) {
        let mut set = |offset: usize, bytes: &[u8]| {
            let from = at as usize + offset;
            file[from..from + bytes.len()].copy_from_slice(bytes);
        };
        set(offset_of!(ChunkHeader, magic), &CHUNK_MAGIC.to_le_bytes());
        set(offset_of!(ChunkHeader, size), &size.to_le_bytes());
        set(offset_of!(ChunkHeader, clock), &clock.to_le_bytes());
    }

    fn latest(file: &[u8]) -> u64 {
        latest_clock(|at, head| {
            let found = file.get(at as usize..at as usize + head.len());
            found.inspect(|bytes| head.copy_from_slice(bytes)).is_some()
        })
    }

    #[test]
    fn the_latest_clock_may_stand_in_any_chunk_of_any_window() {
        let mut file = vec![0; 3 * WINDOW_BYTES as usize];
        assert_eq!(latest(&file), 0);
        put(&mut file, FILE_HEADER_BYTES, 256, 7);
        put(&mut file, FILE_HEADER_BYTES + 256, 1024, 5 << 40);
        assert_eq!(latest(&file), 5 << 40);
        put(&mut file, WINDOW_BYTES, 16384, 6 << 40);
        assert_eq!(latest(&file), 6 << 40);
        assert_eq!(latest(&file[..WINDOW_BYTES as usize]), 5 << 40);
        assert_eq!(latest(&file[..100]), 0);
    }

    #[test]
    fn nonsense_is_passed_over() {
        let mut file = vec![0; 2 * WINDOW_BYTES as usize];
        put(&mut file, FILE_HEADER_BYTES, 0, 9);
        assert_eq!(latest(&file), 0, "no chunk is empty");
        put(&mut file, FILE_HEADER_BYTES, WINDOW_BYTES as u32, 9);
        assert_eq!(latest(&file), 0, "none crosses a window");
        put(&mut file, WINDOW_BYTES, 256, 3);
        assert_eq!(latest(&file), 3);
    }
}
