//! What a replayed process tells of its races: threads, events and addresses, no names.
//!
//! Apart because it is the border between the two sides. The process that replays knows
//! neither files nor debug information; whoever reads its findings knows nothing of how
//! they came about. How this travels as words stands in [`crate::wire`].

use std::collections::BTreeMap;

/// The thread that nobody created, or that is not known.
pub const NO_THREAD: u32 = u32::MAX;

/// Everything that one replay found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawReport {
    /// The files that were mapped, in any order.
    pub modules: Vec<RawModule>,
    /// The threads that the races name.
    pub threads: Vec<RawThread>,
    /// The races, in the order in which their second accesses happened.
    pub races: Vec<RawRace>,
    /// Likewise of processes that have other modules where these are: modules, threads and races alone. Those have none
    /// in turn.
    pub images: Vec<RawReport>,
    /// What could not be observed.
    pub unobserved: Vec<RawUnobserved>,
    /// Where the replay left the recording, if it did.
    pub diverged: Option<RawDivergence>,
    /// The process came to the end of its findings; otherwise they are what was written when it died.
    pub complete: bool,
    /// What a detector that keeps segments would have kept, if that was counted.
    pub segments: Option<RawSegments>,
    /// Racing bytes of which no race was told.
    pub unplaced: RawUnplaced,
}

/// Bytes that race in the first replay, and whose accesses the second one did not come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawUnplaced {
    /// So many.
    pub bytes: u64,
    /// Nothing that the first replay does not know can order them: there are no atomics in the program.
    pub certain: bool,
}

/// The columns of `RecPlay`'s table 2 (Ronsse, Christiaens & De Bosschere 2003), for two ways to know when a segment may be
/// freed. Of several processes they are added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawSegments {
    /// Each is freed behind the last one that is unordered with it.
    pub exact: RawStored,
    /// Each is freed when the clocks of all threads know it: snooped matrix clocks.
    pub snooped: RawStored,
}

/// What one way took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawStored {
    /// Segments that ended.
    pub created: u64,
    /// Segments that were stored at a time, at most.
    pub stored_max: u64,
    /// Bytes of their sets of locations, at most.
    pub bytes_max: u64,
    /// Pairs that were unordered, and so compared.
    pub compared: u64,
}

/// A mapped file, or the kernel's own code page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawModule {
    /// Its path; `[vdso]` for the kernel's page.
    pub file: String,
    /// Its path in the recording, if the replay has another file in its place.
    pub recorded: Option<String>,
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// What was added to the addresses that the file itself names: 0 for a program at fixed addresses. As a process
    /// tells it, of a mapping of code, the first address less where in the file it begins; [`crate::locate`] makes the
    /// whole file of it.
    pub bias: u64,
    /// How far below each thread's pointer its thread-local variables begin: 0 if it has none, or elsewhere.
    pub storage: u64,
    /// The file's build id (`NT_GNU_BUILD_ID`); empty if it has none.
    pub build_id: Vec<u8>,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawThread {
    /// Its index in the recording.
    pub number: u32,
    /// Its name in the tree of threads: `0`, `0.1`, …
    pub name: String,
    /// What the program calls it; empty if it does not.
    pub label: String,
    /// Who created it, or [`NO_THREAD`].
    pub creator: u32,
    /// Where it was created, innermost first, return addresses; empty if not known.
    pub created: RawStack,
    /// Its stack's first address, and the first one behind it; both 0 if not known.
    pub stack: [u64; 2],
    /// What thread-local storage is found by: the static one ends here; 0 if not known.
    pub pointer: u64,
}

/// Frames, innermost first: as addresses, or as that from which [`crate::locate`] makes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawStack {
    /// Return addresses, but for those that `exact` names.
    pub addresses: Vec<u64>,
    /// Which of the addresses, by index, are those of an instruction itself: the first one of an access, the place
    /// that a signal struck, and the code to which its handler returns.
    pub exact: Vec<usize>,
    /// Where the address stands to which frame `i` returns: its canonical frame address is `slots[i] + 8`. Shorter than
    /// the stack, or empty, where not known.
    pub slots: Vec<u64>,
    /// What is to be unwound; there are no addresses then.
    pub snapshot: Option<Snapshot>,
}

impl RawModule {
    /// Its path in the recording: by which people and rules know it.
    pub fn path(&self) -> &str {
        self.recorded.as_deref().unwrap_or(&self.file)
    }
}

impl RawStack {
    /// The stack of an access: an instruction, then return addresses.
    pub fn of_access(addresses: Vec<u64>) -> Self {
        let exact = if addresses.is_empty() { Vec::new() } else { vec![0] };
        Self { addresses, exact, ..Self::default() }
    }

    /// The stack of a call: return addresses.
    pub fn of_call(addresses: Vec<u64>) -> Self {
        Self { addresses, ..Self::default() }
    }
}

/// A thread at one moment: what an unwinder needs to find who called whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// rip, rsp, rbp, rbx, r12, r13, r14, r15.
    pub registers: [u64; 8],
    /// What stands on the stack from rsp upwards, as much as was kept.
    pub words: Vec<u64>,
}

/// What happened between two accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RaceKind {
    /// Two accesses that nothing orders, at least one of which writes.
    #[default]
    Data,
    /// A block was given back while, for all that the order says, somebody still used it.
    Free,
    /// A block was used after it had been given back.
    UseAfterFree,
}

/// How sure it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Certainty {
    /// No race came before it: the recorded execution has it.
    #[default]
    Certain,
    /// A race came before it, and this one may be its consequence.
    AfterFirst,
    /// It may be meant as an atomic: not mixed with the others.
    PossibleAtomic,
}

/// A race.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawRace {
    /// The first racing byte.
    pub address: u64,
    /// The racing bytes: bit `i` stands for the byte at `address + i`.
    pub bytes: u64,
    /// Bytes for which accesses of the same two instructions race besides, by their lines (an address divided by 64).
    pub more: BTreeMap<u64, u64>,
    /// What happened.
    pub kind: RaceKind,
    /// How sure it is.
    pub certainty: Certainty,
    /// How often accesses of the same two instructions raced.
    pub count: u64,
    /// Both accesses, in the order of the replay.
    pub accesses: [RawAccess; 2],
    /// The heap block in which the bytes lie.
    pub block: Option<RawBlock>,
}

impl RawRace {
    /// All racing bytes that are known of, by their lines.
    pub fn racing_lines(&self) -> BTreeMap<u64, u64> {
        let mut lines = self.more.clone();
        // They lie in one line as a process tells them, and anywhere in what others made.
        for byte in (0..u64::BITS).filter(|byte| self.bytes >> byte & 1 != 0) {
            let address = self.address.wrapping_add(byte.into());
            *lines.entry(address / 64).or_default() |= 1 << (address % 64);
        }
        lines
    }
}

/// What an access did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessKind {
    /// A plain load.
    #[default]
    Read,
    /// A plain store, or a load and a store in one instruction.
    Write,
    /// A load that is known to be atomic.
    AtomicRead,
    /// A locked instruction, or a store that is known to be atomic.
    AtomicWrite,
    /// The block was given back to the heap.
    Free,
}

/// What the thread was in the middle of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Setting {
    /// Nothing special.
    #[default]
    Ordinary,
    /// A constructor, before `main`.
    Constructor,
    /// A destructor or handler at the process's exit.
    Exit,
    /// The handler of a signal, by its number.
    Signal(u32),
}

/// One of the two accesses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawAccess {
    /// Who.
    pub thread: u32,
    /// How many recorded events the thread had behind it.
    pub event: u64,
    /// How often it had come to this instruction since the last of them, this time included.
    pub count_since_event: u64,
    /// What it did.
    pub kind: AccessKind,
    /// The first byte that it touched.
    pub address: u64,
    /// How many bytes; 0 if that is not known.
    pub size: u64,
    /// What was read or written, where that is known and at most eight bytes.
    pub value: Option<u64>,
    /// Of a longer one: of the bytes that race the first ones side by side, as it read or wrote them; empty if not known.
    pub content: Vec<u8>,
    /// What the thread was in the middle of.
    pub setting: Setting,
    /// Where. The first address is the instruction's; if our own library did it for the program, the one to which the
    /// program's call returns.
    pub stack: RawStack,
    /// What it held.
    pub locks: Vec<RawLock>,
    /// Its last synchronisation before the access.
    pub before: Option<RawSync>,
    /// Its first one after it.
    pub after: Option<RawSync>,
}

/// A lock that was held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawLock {
    /// The lock object.
    pub address: u64,
    /// Held for reading, together with others.
    pub shared: bool,
    /// Where it was taken; empty if not known.
    pub stack: RawStack,
}

/// An operation of synchronisation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawSync {
    /// The event's number in its thread.
    pub event: u64,
    /// What it was: `unlock`, `post`, …
    pub operation: String,
    /// The object, or 0.
    pub object: u64,
}

/// A block of the heap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawBlock {
    /// First address.
    pub start: u64,
    /// Bytes that the program asked for.
    pub size: u64,
    /// Who allocated it.
    pub allocated: RawOrigin,
    /// Who gave it back, if somebody did.
    pub freed: Option<RawOrigin>,
}

/// Who did something to a block, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawOrigin {
    /// The thread, or [`NO_THREAD`].
    pub thread: u32,
    /// Where; empty if not known.
    pub stack: RawStack,
}

/// Something that was not observed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawUnobserved {
    /// What, in words.
    pub what: String,
    /// How often.
    pub count: u64,
}

/// Where a replay left its recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawDivergence {
    /// Whose.
    pub thread: u32,
    /// How many events it had behind it.
    pub event: u64,
    /// What it did, in words.
    pub what: String,
}
