//! The closed table of system calls: what a recording does with each call of
//! x86-64 Linux, and where the kernel writes when one is done.
//!
//! Apart because the runtime, the documentation and the tests must all say the
//! same; it runs inside the recorded process, so it allocates nothing, depends
//! on nothing and does not fail on anything that a program may pass. The data
//! is in `table` and `requests`, the meaning of a shape in `written.rs`, the
//! page made from it all in `document.rs`.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod document;
mod output;
mod requests;
mod table;
mod written;

pub use document::Document;
pub use output::{Bytes, Output, When};
pub use requests::{Request, resolve};
pub use table::{FIRST_NUMBERS, LATER_NUMBERS, execute_outputs, find};
pub use written::{Before, Memory, before, is_single, single, written};

/// How a recording treats a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Result and written memory come from the trace in a replay; the kernel is not asked.
    Emulate(&'static [Output]),
    /// Really done in a replay too.
    Execute(Effect),
    /// Not done at all: fails with this (positive) errno so that programs fall back, in both runs.
    Refuse(u16),
    /// The treatment depends on an argument: [`resolve`] says which it is.
    ByRequest(Request),
}

/// A [`Treatment`] with the request looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// Result and written memory come from the trace in a replay; the kernel is not asked.
    Emulate(&'static [Output]),
    /// Really done in a replay too.
    Execute(Effect),
    /// Not done at all: fails with this (positive) errno, in both runs.
    Refuse(u16),
}

/// Why a call has to be done in a replay as well: what of the process it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// The address space, what its pages hold or how far they may grow.
    Memory,
    /// A register or an address that the kernel keeps for the calling thread.
    ThreadState,
    /// A new thread or process; the flags tell which.
    Processes,
    /// Another program in the place of this one.
    Exec,
    /// The end of the thread or of the process.
    Exit,
    /// Collects a child that has ended.
    Wait,
    /// Dispositions, masks, timers that send signals, sending and waiting for them.
    Signals,
    /// Sleeps for and wakes other threads by a word in memory.
    Futex,
    /// Gives up the processor or orders memory between processors.
    Schedule,
}

impl Effect {
    /// Every effect, in the order of the documentation.
    pub const ALL: [Effect; 9] = [
        Effect::Memory,
        Effect::ThreadState,
        Effect::Processes,
        Effect::Exec,
        Effect::Exit,
        Effect::Wait,
        Effect::Signals,
        Effect::Futex,
        Effect::Schedule,
    ];

    /// The stable lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Effect::Memory => "memory",
            Effect::ThreadState => "thread-state",
            Effect::Processes => "processes",
            Effect::Exec => "exec",
            Effect::Exit => "exit",
            Effect::Wait => "wait",
            Effect::Signals => "signals",
            Effect::Futex => "futex",
            Effect::Schedule => "schedule",
        }
    }
}

/// One system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The kernel's name, without a prefix.
    pub name: &'static str,
    /// What is done with it.
    pub treatment: Treatment,
}

/// A call that can't be recorded: what it does to memory is not known, or not its doing alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The call; empty if the number has no row.
    pub call: &'static str,
    /// Its request, or the number that has no row.
    pub request: u64,
}
