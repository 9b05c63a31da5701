//! What the launcher lays ready for the runtime of a replay: the verified
//! streams of all threads, each in one piece, with the derived order if known.
//!
//! Apart from the trace on disk because a replay must not parse outside data
//! inside the program: the launcher verifies first, then copies.
//!
//! ```text
//! PlanHeader · PlanThread × thread_count · PlanProcess × process_count
//!            · children (u32 thread indices) · streams
//! ```
//! All offsets count from the start of the plan.

/// `PlanHeader::magic`.
pub const PLAN_MAGIC: u64 = u64::from_le_bytes(*b"RLVPLAN\x01");

/// The head of the plan.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PlanHeader {
    /// [`PLAN_MAGIC`].
    pub magic: u64,
    /// Number of threads, over all processes.
    pub thread_count: u32,
    /// Number of process images.
    pub process_count: u32,
    /// Offset of the [`PlanThread`]s.
    pub threads_offset: u64,
    /// Offset of the [`PlanProcess`]es.
    pub processes_offset: u64,
}

/// One recorded thread.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PlanThread {
    /// Index of its parent, or `layout::NONE`.
    pub parent: u32,
    /// How-manieth child of the parent.
    pub child_number: u32,
    /// Index of its process image.
    pub process: u32,
    /// 1 if it finished before its process ended (`layout::THREAD_FINISHED`), else 0.
    pub finished: u32,
    /// Events recorded.
    pub events: u64,
    /// Clock at its creation.
    pub start_clock: u64,
    /// Offset and length of its stream (`record`).
    pub stream_offset: u64,
    /// Bytes of its stream.
    pub stream_len: u64,
    /// Offset of its derived order (`Record::Wait` only).
    pub derived_offset: u64,
    /// Bytes of its derived order.
    pub derived_len: u64,
    /// Offset of its children: `children_count` thread indices by child number, `NONE` where a number has no thread.
    pub children_offset: u64,
    /// Number of entries there.
    pub children_count: u64,
}

/// What a process image has to do in a replay, in [`PlanProcess::part`].
pub mod part {
    /// All that it did.
    pub const WHOLE: u32 = 0;
    /// The same; it is the one that a replay of a single process is for, and begins with.
    pub const ALONE: u32 = 1;
    /// Quietly what it did until it made the next one on the way there.
    pub const AHEAD: u32 = 2;
    /// Nothing: it does not exist.
    pub const ABSENT: u32 = 3;
}

/// One recorded process image.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PlanProcess {
    /// Its first thread.
    pub main_thread: u32,
    /// One of `layout::end`.
    pub end: u32,
    /// Exit code, if it exited.
    pub exit_code: u32,
    /// Thread that ran exit, or `layout::NONE`.
    pub exit_thread: u32,
    /// Its id in the recording.
    pub pid: u32,
    /// One of [`part`].
    pub part: u32,
}

const _: () = assert!(size_of::<PlanHeader>() == 32);
const _: () = assert!(size_of::<PlanThread>() == 80);
const _: () = assert!(size_of::<PlanProcess>() == 24);
