//! The closed table: every synchronisation symbol that glibc and libstdc++
//! export, and what a recording does with it.
//!
//! Apart because the preloaded library, `doctor`, the documentation and the
//! tests must all say the same; it depends on nothing so that each of them can
//! use it. The data is in `table.rs`, the page made from it in `document.rs`.
#![no_std]
#![forbid(unsafe_code)]

mod document;
mod table;

pub use document::Document;
pub use table::GROUPS;

/// What a recording does with calls of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Treatment {
    /// The preloaded library defines it and orders the call.
    Ordered,
    /// The preloaded library defines it and stops the program with a message, always or in the cases named.
    Refused,
    /// The preloaded library defines it as a place where a cancellation can strike; its result is not recorded.
    Counted,
    /// The preloaded library defines it to know of the call; nothing of it is recorded.
    Seen,
    /// Not touched: no other thread can see in which order such calls ran.
    PassThrough,
    /// Its order could be seen but is outside what this level records: `doctor` names it. The preloaded library may
    /// define it all the same, to see cancellations.
    Unordered,
}

impl Treatment {
    /// Every treatment, in the order of the documentation.
    pub const ALL: [Treatment; 6] = [
        Treatment::Ordered,
        Treatment::Refused,
        Treatment::Counted,
        Treatment::Seen,
        Treatment::PassThrough,
        Treatment::Unordered,
    ];

    /// The stable lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Treatment::Ordered => "ordered",
            Treatment::Refused => "refused",
            Treatment::Counted => "counted",
            Treatment::Seen => "seen",
            Treatment::PassThrough => "pass-through",
            Treatment::Unordered => "unordered",
        }
    }

    /// The preloaded library exports every symbol of this treatment.
    pub const fn is_defined_by_relive(self) -> bool {
        matches!(self, Treatment::Ordered | Treatment::Refused | Treatment::Counted | Treatment::Seen)
    }
}

/// The class of object that a symbol works on; the names are those of `relive_order::Family`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Mutexes, `mtx_t` among them.
    Mutex,
    /// Condition variables.
    Condition,
    /// Reader-writer locks.
    RwLock,
    /// Semaphores.
    Semaphore,
    /// Barriers.
    Barrier,
    /// Spin locks.
    SpinLock,
    /// Once routines and C++ static guards.
    Once,
    /// Threads, processes and what is sent to them.
    Thread,
    /// stdio streams.
    Stream,
    /// Other libc state.
    Libc,
}

impl Family {
    /// Every family.
    pub const ALL: [Family; 10] = [
        Family::Mutex,
        Family::Condition,
        Family::RwLock,
        Family::Semaphore,
        Family::Barrier,
        Family::SpinLock,
        Family::Once,
        Family::Thread,
        Family::Stream,
        Family::Libc,
    ];

    /// The stable lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Family::Mutex => "mutex",
            Family::Condition => "condition",
            Family::RwLock => "rwlock",
            Family::Semaphore => "semaphore",
            Family::Barrier => "barrier",
            Family::SpinLock => "spinlock",
            Family::Once => "once",
            Family::Thread => "thread",
            Family::Stream => "stream",
            Family::Libc => "libc",
        }
    }
}

/// Symbols that are treated alike for the same reason.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// What is done with them.
    pub treatment: Treatment,
    /// What they work on.
    pub family: Family,
    /// Why, in one line.
    pub why: &'static str,
    /// Their names, without versions.
    pub names: &'static [&'static str],
}

/// One symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its name, without a version.
    pub name: &'static str,
    /// What is done with it.
    pub treatment: Treatment,
    /// What it works on.
    pub family: Family,
    /// Why, in one line.
    pub why: &'static str,
}

const COUNT: usize = {
    let mut count = 0;
    let mut group = 0;
    while group < GROUPS.len() {
        count += GROUPS[group].names.len();
        group += 1;
    }
    count
};

/// Every symbol, in the order of `table.rs`.
pub static TABLE: [Symbol; COUNT] = {
    let first = &GROUPS[0];
    let mut table =
        [Symbol { name: first.names[0], treatment: first.treatment, family: first.family, why: first.why }; COUNT];
    let mut at = 0;
    let mut group = 0;
    while group < GROUPS.len() {
        let Group { treatment, family, why, names } = GROUPS[group];
        let mut name = 0;
        while name < names.len() {
            table[at] = Symbol { name: names[name], treatment, family, why };
            at += 1;
            name += 1;
        }
        group += 1;
    }
    table
};

/// Prefixes of names that must be in the table if a library exports them.
pub const CLOSED_PREFIXES: [&str; 9] =
    ["pthread_", "__pthread_", "_pthread_", "sem_", "mtx_", "cnd_", "thrd_", "tss_", "__cxa_guard_"];

/// The table's entry for `name`, which carries no version.
pub fn find(name: &str) -> Option<&'static Symbol> {
    TABLE.iter().find(|symbol| symbol.name == name)
}

/// A symbol of this name has to be in the table.
pub fn must_be_known(name: &str) -> bool {
    name == "call_once" || CLOSED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}
