//! The memory that the launcher and the recorded processes share while they run.
//!
//! One memfd a session, mapped by every process of it; this is the only thing
//! that crosses into the guest besides the environment variables below. Neither
//! side trusts the other to live: each word is atomic, nothing is a lock but what holds up an instruction on memory that
//! processes share, and who has that is known.
//!
//! Recording: a process that needs its data file to grow stores
//! [`ProcessSlot::wanted`], raises [`Control::doorbell`] and wakes it; the launcher
//! reserves the space (`fallocate`), stores `reserved` or `error`, raises `reply`
//! and wakes that. Growing here would kill the program under `RLIMIT_FSIZE`.
//!
//! Replay: the turns stand in [`TurnSlot`]s behind this header, one for each
//! recorded thread, and behind those the plan (see [`crate::plan`]).

use crate::declared::DeclaredAccesses;
use crate::known::KnownCode;
use crate::stand::Survey;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};
pub use shared::{SharedFile, SharedLine, SharedObject};

mod shared;

/// Path of the control memory, e.g. `/proc/PID/fd/N`.
pub const ENV_CONTROL: &str = "RELIVE_CONTROL";
/// Who started this image: `parent-thread.child-number.clock`, decimal. Absent in the first process.
pub const ENV_LINK: &str = "RELIVE_LINK";
/// Environment variable of a process that runs translated.
pub const ENV_TRANSLATE: &str = "RELIVE_TRANSLATE";
/// `Control::magic`.
pub const CONTROL_MAGIC: u64 = u64::from_le_bytes(*b"RLVCTRL\x01");
/// Process images that can record at the same time.
pub const PROCESS_SLOTS: usize = 1024;
/// Clocks of objects shared between processes that are not mutexes; more objects share these.
pub const SHARED_OBJECTS: usize = 1 << 14;
/// So many pieces of memory that processes share are ordered each by itself; more share these.
pub const SHARED_LINES: usize = 1 << 12;
/// [`ProcessSlot::state`] while a process uses the slot.
pub const IN_USE: u32 = 1;
/// Pieces of code that all processes of a session know what was looked for in, at most, and words about all of them.
pub const KNOWN_CODE: usize = 1024;
/// See [`KNOWN_CODE`].
pub const KNOWN_WORDS: usize = 1 << 18;
/// Files mapped to be shared and written, at most.
pub const SHARED_FILES: usize = 2048;
/// Leaves of the processor's description, at most.
pub const CPUID_LEAVES: usize = 256;
/// Places at which a debugger is told of a thread: the two accesses of a race.
pub const STOPS: usize = 2;
/// Bytes of the folder's path, at most.
pub const FOLDER_BYTES_MAX: usize = 4096;

/// See [`Control::shown_by`].
pub const SHOWN_BITS: u32 = 40;
/// Bytes of [`Control::redacted`], at most.
pub const PATTERN_BYTES_MAX: usize = 4096;
/// Entries of [`Control::told`], with the one that ends them.
pub const TOLD_MAX: usize = 32;

/// Values of [`Control::mode`].
pub mod mode {
    /// The session is over: stop recording.
    pub const CLOSED: u32 = 0;
    /// Recording.
    pub const RECORD: u32 = 1;
    /// Replaying.
    pub const REPLAY: u32 = 2;
    /// The recording reached a limit: stop recording and say nothing; the launcher says it.
    pub const ENOUGH: u32 = 3;
}

/// Instructions in [`Accesses`], at most.
pub const ACCESSES_MAX: usize = 1 << 16;

/// Bits of [`Control::flags`].
pub mod flag {
    /// Replay follows the timestamps and writes the derived order to `learn-p{process:05}.trace`.
    pub const LEARN: u32 = 1;
    /// Replay follows the derived order of the plan.
    pub const DERIVED: u32 = 2;
    /// A debugger is attached: the runtime never gives up on its own.
    pub const DEBUGGER: u32 = 4;
    /// `membarrier` works: publishers need no fence (`MEMBARRIER_CMD_GLOBAL_EXPEDITED`).
    pub const MEMBARRIER: u32 = 8;
    /// The program may be another build: operations on streams that the recording does not have run without an event.
    pub const REBUILT: u32 = 16;
    /// What the program takes from outside is part of the recording.
    pub const ENVIRONMENT: u32 = 32;
    /// The files of a packed trace stand for those of the machine.
    pub const PACKED: u32 = 1 << 10;
    /// The replay learns which bytes race.
    pub const RACES: u32 = 1 << 12;
    /// The replay watches those.
    pub const RACES_WATCHED: u32 = 1 << 13;
    /// Besides [`RACES_WATCHED`]: what is wanted are the instructions that access watched bytes, and not what the races are.
    pub const LEARNING: u32 = 1 << 22;
    /// Besides [`RACES`]: the replay counts segments as `RecPlay` does.
    pub const SEGMENTS: u32 = 1 << 14;
    /// Besides [`RACES`]: each read counts in each segment, so that of no line it stays open whether it races.
    pub const EACH_READ: u32 = 1 << 24;
    /// All code of the program runs under the translator.
    pub const TRANSLATED: u32 = 1 << 11;
    /// The trace holds copies of files; see [`crate::kept`].
    pub const KEPT: u32 = 1 << 16;
    /// By timestamps, events need not wait for smaller ones that can't matter to them. Only where a replay that diverges is
    /// tried again without.
    pub const AHEAD: u32 = 1 << 17;
    /// The recording tells of locks whom they follow; see [`crate::layout::LOCKS_SINCE`].
    pub const LOCKS: u32 = 1 << 19;
    /// Instructions that change memory indivisibly are events.
    pub const ATOMICS: u32 = 1 << 20;
    /// The recording tells of them whom they follow; see [`crate::layout::ATOMICS_TELL_SINCE`].
    pub const ATOMICS_TELL: u32 = 1 << 21;
    /// The heap begins where it did before [`crate::layout::HIGH_HEAP_SINCE`].
    pub const LOW_HEAP: u32 = 1 << 23;
    /// The break of every program lies where it did before [`crate::layout::NEAR_BREAK_SINCE`].
    pub const FAR_BREAK: u32 = 1 << 26;
    /// With calls in which time passed stands which clock they joined; see [`crate::layout::LAPSES_SINCE`].
    pub const LAPSES: u32 = 1 << 27;
    /// Who maps a file to write to it and share it comes behind those who did so before; see [`crate::layout::FILES_SINCE`].
    pub const FILES: u32 = 1 << 28;
    /// `dlsym` and kin are in order with `dlopen`; see [`crate::layout::LOOK_UPS_SINCE`].
    pub const LOOK_UPS: u32 = 1 << 29;
    /// `exit` is in order with registrations of handlers; see [`crate::layout::HANDLERS_SINCE`].
    pub const HANDLERS: u32 = 1 << 30;
    /// Forks are in order with streams that are opened; see [`crate::layout::FORKS_SINCE`].
    pub const FORKS: u32 = 1 << 6;
    /// Look-ups of users and the like are in order with `dlopen`; see [`crate::layout::MODULES_SINCE`].
    pub const MODULES: u32 = 1 << 7;
    /// Backtraces are without our own frames; see [`crate::layout::BACKTRACES_SINCE`].
    pub const BACKTRACES: u32 = 1 << 9;
    /// Functions looked up in libc are the recorded ones, stacks without our frames; see [`crate::layout::FOUND_SINCE`].
    pub const FOUND: u32 = 1 << 15;
    /// What is worth knowing and no error is not told.
    pub const QUIET: u32 = 1 << 18;
    /// Nobody is to see what the program writes to its standard error.
    pub const SILENT: u32 = 1 << 25;
    /// Replay of one process only: the plan says which part each one has.
    pub const ALONE: u32 = 256;
}

/// Values of [`Control::debugger`].
pub mod debugger {
    /// The process that is to be debugged is not there yet.
    pub const NONE: u32 = 0;
    /// It waits for the debugger.
    pub const WANTED: u32 = 1;
    /// The debugger has it.
    pub const ATTACHED: u32 = 2;
}

/// The head of the control memory.
#[derive(Debug)]
#[repr(C)]
pub struct Control {
    /// [`CONTROL_MAGIC`].
    pub magic: u64,
    /// [`crate::layout::FORMAT_VERSION`].
    pub version: u32,
    /// One of [`mode`].
    pub mode: AtomicU32,
    /// Process id of the launcher.
    pub launcher: u32,
    /// Bits of [`flag`].
    pub flags: u32,
    /// Futex: raised when a process wants something from the launcher.
    pub doorbell: AtomicU32,
    /// Index of the next process image. The launcher made the file of image 0.
    pub next_process: AtomicU32,
    /// Index of the next thread (recording). Thread 0 is the first process's main thread.
    pub next_thread: AtomicU32,
    /// Number of [`TurnSlot`]s and plan threads (replay).
    pub thread_count: u32,
    /// Byte offset of the turn slots from the start of this memory; a multiple of 64.
    pub turns_offset: u64,
    /// Byte offset of the plan; a multiple of 64.
    pub plan_offset: u64,
    /// Bytes of the whole memory.
    pub total_bytes: u64,
    /// Bytes used of `folder`.
    pub folder_len: u32,
    /// Bytes used of `source`.
    pub source_len: u32,
    /// Bytes used of `races`.
    pub races_len: u32,
    /// Device and inode of the launcher's standard output and standard error (recording).
    pub outputs: [[AtomicU64; 2]; 2],
    /// Bytes that a replay has come to show of standard output and of standard error.
    pub output_bytes: [AtomicU64; 2],
    /// So many of them an earlier attempt of the same replay has shown: they are not shown again.
    pub output_bytes_before: [AtomicU64; 2],
    /// The last process that ended in a replay because it became a program that was not recorded, and is not started.
    pub left_out: AtomicU32,
    /// Every thread of a replay with an index below this one has run its last event, the first thread aside,
    /// which usually outlives all others.
    pub settled: AtomicU32,
    /// One more than the largest index of a thread that was created in this replay.
    pub born: AtomicU32,
    /// Number of threads created in this replay so far: a scan of the slots during which it moved must be repeated.
    pub births: AtomicU32,
    /// The largest clock that a thread had before a call that may have woken another one through the kernel
    /// (recording): who returns from such a wait joins it.
    pub latest: AtomicU64,
    /// Bytes that the trace has at most (recording), and how many its chunks and inputs have.
    pub allowed: AtomicU64,
    /// See `allowed`.
    pub spent: AtomicU64,
    /// The last timestamp that belongs to a recording that reached a limit; `u64::MAX` before.
    pub cut: AtomicU64,
    /// How often threads waited at words by calls of their own while such calls were not ordered (recording).
    pub unordered_waits: AtomicU64,
    /// Futex: one of [`debugger`], while one process is replayed alone and debugged.
    pub debugger: AtomicU32,
    /// The trace folder (recording) or the folder for learnt order (replay), absolute.
    pub folder: [u8; FOLDER_BYTES_MAX],
    /// The trace folder, absolute.
    pub source: [u8; FOLDER_BYTES_MAX],
    /// The folder for what a replay says of races, absolute; see [`crate::races`].
    pub races: [u8; FOLDER_BYTES_MAX],
    /// Byte offset of the list of files that stand for the machine's, and their number: each has device and inode, and
    /// those that it had in the recording (replay of a packed trace).
    pub files_offset: u64,
    /// See `files_offset`.
    pub files_count: u64,
    /// When the recording began, seconds and nanoseconds: files that changed since are kept in the trace. `u64::MAX` in a
    /// replay.
    pub keeps_since: [u64; 2],
    /// Byte offset of the list of such files that images were started from, and their number; [`crate::kept::ENTRY_WORDS`]
    /// each (replay).
    pub kept_offset: u64,
    /// See `kept_offset`.
    pub kept_count: u64,
    /// What the kernel told the recorded program about the machine, entries of its auxiliary vector (replay); up to the
    /// first of type 0. None, if the recording does not know.
    pub told: [[u64; 2]; TOLD_MAX],
    /// The first divergence that a process met.
    pub divergence: Divergence,
    /// The first one that the replay went on behind, and how many there were.
    pub passed: Divergence,
    /// See there.
    pub passed_count: AtomicU64,
    /// Who records now.
    pub processes: [ProcessSlot; PROCESS_SLOTS],
    /// Clocks of process-shared objects.
    pub shared: [SharedObject; SHARED_OBJECTS],
    /// What orders instructions on memory that processes share, by their place in it.
    pub lines: [SharedLine; SHARED_LINES],
    /// The launcher's descriptor of the memory in which shared files have their places (replay).
    pub pool: u32,
    /// Files that are mapped to be shared and written.
    pub files: [SharedFile; SHARED_FILES],
    /// Code that was looked through for system calls.
    pub code: KnownCode,
    /// Code that was looked through for instructions that read the outside.
    pub instructions: KnownCode,
    /// Code that was looked through for instructions that change memory indivisibly.
    pub indivisible: KnownCode,
    /// What the processor says of itself, where the environment is recorded.
    pub cpuid: Cpuid,
    /// What a replaying process wants to know of its own code.
    pub survey: Survey,
    /// Bytes used of `redacted`.
    pub redacted_len: u32,
    /// Patterns of the variables whose values are kept out of the trace, a zero behind each (recording); see
    /// [`crate::pattern`].
    pub redacted: [u8; PATTERN_BYTES_MAX],
    /// Who wrote last to the session's output, the thread's index and one more from bit [`SHOWN_BITS`] on, and below how
    /// often all have (recording).
    pub shown_by: AtomicU64,
    /// The largest clock that one of them had by then (recording).
    pub shown_clock: AtomicU64,
    /// The kernel's number of the thread that is in a write to each of the session's outputs, of the first if both are the same; 0 for
    /// none (recording).
    pub writing: [AtomicU32; 2],
    /// 1 once a thread that shares its process has come to the end of a call in which time passed or, while an order is learnt, is to.
    pub lapses: AtomicU32,
    /// So many writes are shown (replay).
    pub shown: AtomicU64,
    /// Futex: raised with `shown` while `shown_waiters` is not 0.
    pub shown_bell: AtomicU32,
    /// Threads that wait for writes of others to be shown.
    pub shown_waiters: AtomicU32,
    /// The error for which nothing that a replay shows can be written any more: nobody reads it, a full disk.
    pub unread: AtomicU32,
    /// Where a debugger is to be told of a thread (replay).
    pub stops: [Stop; STOPS],
    /// One more than the index of the thread that waits in vain in this replay, as another one has shown; 0 if nothing is known
    /// of that.
    pub in_vain: u64,
    /// Accesses that are ordered like instructions that change memory indivisibly.
    pub accesses: Accesses,
    /// Those that debug information tells of (recording).
    pub declared: DeclaredAccesses,
}

/// Instructions whose plain accesses were learnt to race.
#[derive(Debug)]
#[repr(C)]
pub struct Accesses {
    /// How many.
    pub count: u32,
    /// Bits of those that stand in code of the session.
    pub met: [AtomicU64; ACCESSES_MAX / u64::BITS as usize],
    /// The file that each stands in, see [`crate::accesses::key`], and its offset there; in ascending order.
    pub list: [[u64; 2]; ACCESSES_MAX],
}

/// A place in the recorded order at which a thread of a replay calls a function that a debugger knows.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Stop {
    /// The thread's index and one more; 0 for none.
    pub thread: u64,
    /// So many events of it are complete.
    pub event: u64,
}

/// What the recording's processor says of itself: programs get it from here.
#[derive(Debug)]
#[repr(C)]
pub struct Cpuid {
    /// How many leaves there are; 0 if programs may ask the processor.
    pub count: u32,
    /// Leaf and part of it, and the four registers.
    pub leaves: [[u32; 6]; CPUID_LEAVES],
}

/// A process image that records or replays now.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct ProcessSlot {
    /// 0 free, [`IN_USE`]. Taken by the process, freed by it or, if it died, by the launcher.
    pub state: AtomicU32,
    /// Process id.
    pub pid: AtomicU32,
    /// Index of the image.
    pub process: AtomicU32,
    /// Futex: raised with each answer of the launcher.
    pub reply: AtomicU32,
    /// Bytes of data file that the process would like to have.
    pub wanted: AtomicU64,
    /// Bytes of data file that it may touch.
    pub reserved: AtomicU64,
    /// errno of a failed reservation, 0 if none.
    pub error: AtomicI32,
}

/// Values of [`TurnSlot::state`].
pub mod turn {
    /// Not created yet.
    pub const UNBORN: u32 = 0;
    /// Runs the program.
    pub const RUNNING: u32 = 1;
    /// Waits for its turn: see `waits_for` and `wants`.
    pub const WAITING: u32 = 2;
    /// Blocked in a real primitive without time limit (join, a static initialiser).
    pub const BLOCKED: u32 = 3;
    /// Past its last recorded event, held there because the recording ended before it did.
    pub const PARKED: u32 = 4;
    /// Ran to its end.
    pub const ENDED: u32 = 5;
    /// Met a divergence and stands at it.
    pub const DIVERGED: u32 = 6;
    /// In a call in which time passed: lets others come to where they were, for a while.
    pub const LAPSES: u32 = 7;
}

/// What others look at again and again while they wait for a thread, apart from what it writes at every step: each
/// store to memory that another core polls costs a transfer, in the midst of a critical section.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Awaited {
    /// Timestamp of the thread's next event; `u64::MAX` before its creation and past its last event.
    pub next: AtomicU64,
    /// [`TurnSlot::events`] as of the last event that others are likely to wait for: never ahead of it.
    pub handed_over: AtomicU64,
    /// The clock that the thread joined in the next call in which time passed, or in the one that it has just left; 0 before it has
    /// started, `u64::MAX` if there is none (while an order is learnt).
    pub lapse: AtomicU64,
    /// What `next` would be if the thread did not stand right behind such a call; 0 where it does not.
    pub beyond: AtomicU64,
    /// How many such calls the thread has left (by a learnt order, and while it is learnt).
    pub lapses_left: AtomicU64,
}

/// Where a thread of a replay stands. Others wait on it; the launcher watches it.
#[derive(Debug)]
#[repr(C)]
pub struct TurnSlot {
    /// What waiting threads poll.
    pub awaited: Awaited,
    /// Events complete, their effects included.
    pub events: AtomicU64,
    /// The smallest value of `next` (reference rule) or `events` (derived order) that somebody sleeps for; `u64::MAX` if nobody.
    pub wake_at: AtomicU64,
    /// Return address into the program of the call it is in, 0 if unknown.
    pub place: AtomicU64,
    /// The timestamp (reference rule) or number of events (derived order) of `waits_for` that it needs, while `WAITING`.
    pub wants: AtomicU64,
    /// System calls that it has taken from its stream.
    pub calls: AtomicU64,
    /// How often the detector of races has worked for it: such a thread takes longer, and does not spin.
    pub looked: AtomicU64,
    /// Futex: raised when `wake_at` was reached.
    pub sequence: AtomicU32,
    /// One of [`turn`].
    pub state: AtomicU32,
    /// Kernel id of the thread in this replay.
    pub tid: AtomicU32,
    /// Process id in this replay.
    pub pid: AtomicU32,
    /// The thread it waits for, while `WAITING`.
    pub waits_for: AtomicU32,
    /// Kind of the event it is at (`order::Kind`), 0 if none.
    pub kind: AtomicU32,
    /// If this thread has run its last event: so have all with an index from here to below this one. 0 if not known.
    pub settled_until: AtomicU32,
    /// 1 once it has done all that was recorded of it, calls included.
    pub is_done: AtomicU32,
    /// 1 while it looks for the passage of an instruction at which a signal struck: its computing takes longer.
    pub looks_for_passage: AtomicU32,
}

/// Values of [`Divergence::cause`].
pub mod cause {
    /// None so far.
    pub const NONE: u32 = 0;
    /// The check hash differs: within the last 256 events another kind of operation.
    pub const HASH: u32 = 1;
    /// The event's recorded jump does not fit the object's recomputed clock.
    pub const CLOCK: u32 = 2;
    /// The thread goes on after its last recorded event although it ended in the recording.
    pub const MORE_EVENTS: u32 = 3;
    /// The thread ended with recorded events left.
    pub const FEWER_EVENTS: u32 = 4;
    /// A thread was created that the recording doesn't have.
    pub const MORE_THREADS: u32 = 5;
    /// A recorded result exists for an operation that the program did not do, or the other way round.
    pub const VALUE: u32 = 6;
    /// An object was not free although it was this thread's turn.
    pub const BUSY: u32 = 7;
    /// A call that can't succeed in replay although it did in the recording, e.g. thread creation.
    pub const FAILED: u32 = 8;
    /// A stream of the plan is malformed.
    pub const MALFORMED: u32 = 9;
    /// The program made another system call than recorded, or one that does not fit the recorded one.
    pub const CALL: u32 = 10;
    /// Memory that the program had in the recording can't be had at the same address.
    pub const ADDRESS: u32 = 11;
    /// No divergence: a process that can't be replayed alone, because it shares memory with others.
    pub const SHARED: u32 = 12;
    /// The program gives away other bytes by a call than in the recording.
    pub const OUTPUT: u32 = 13;
    /// Likewise, by a call behind which the replay goes on.
    pub const PASSED: u32 = 14;
    /// A child was killed by the signal that was found, where the recorded one ended by itself.
    pub const KILLED: u32 = 15;
}

/// Values of [`Divergence::claimed`].
pub mod claim {
    /// Nobody met one.
    pub const FREE: u32 = 0;
    /// It is being written.
    pub const BEGUN: u32 = 1;
    /// It is complete.
    pub const COMPLETE: u32 = 2;
    /// The launcher has put it into words, for which the process had to live.
    pub const WORDED: u32 = 3;
}

/// The first divergence of a replay; the process that met it waits for the launcher's verdict.
#[derive(Debug)]
#[repr(C)]
pub struct Divergence {
    /// One of [`claim`].
    pub claimed: AtomicU32,
    /// One of [`cause`].
    pub cause: AtomicU32,
    /// Thread that met it.
    pub thread: AtomicU32,
    /// Kind of operation the program did (`order::Kind`).
    pub did: AtomicU32,
    /// The thread's event number.
    pub event: AtomicU64,
    /// What was recorded: the hash, clock or value.
    pub expected: AtomicU64,
    /// What was met.
    pub found: AtomicU64,
    /// Return address into the program.
    pub place: AtomicU64,
    /// Address of the object.
    pub object: AtomicU64,
}

const _: () = assert!(size_of::<TurnSlot>() == 256);
const _: () = assert!(size_of::<ProcessSlot>() == 64);
const _: () = assert!(core::mem::offset_of!(Control, processes) % 64 == 0);
