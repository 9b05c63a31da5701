//! Why something is not translated.
//!
//! Apart because every part of the crate returns these.

use core::fmt;

/// What cannot be translated, or where there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// An instruction that would not do the same in a cache.
    Refused {
        /// Where it stands in the program.
        ip: u64,
        /// What it does.
        why: Refusal,
    },
    /// Nothing can be read where the program wants to go.
    Unreadable {
        /// The address.
        ip: u64,
    },
    /// What is where the program wants to go may not be executed: it faults there.
    NotExecutable {
        /// The address.
        ip: u64,
    },
    /// The code cache has no room for another block.
    CodeFull,
    /// The data of the caller's memory has no room for another block.
    DataFull,
    /// The caller's memory is too small to begin with, or too large for near jumps.
    Memory,
    /// The processor or the system has no `xsave`.
    NoVectorState,
    /// The system refuses to set gs.
    NoThreadArea,
}

/// What an instruction does that it could not do in a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The bytes are no instruction.
    Invalid,
    /// It changes the code segment, or returns from the kernel or an interrupt.
    Far,
    /// A branch of 16 bits.
    ShortOperand,
    /// It uses gs, where the thread's area is.
    ThreadArea,
    /// Its address is relative to the lower half of the instruction pointer.
    ShortInstructionPointer,
    /// It begins a transaction, whose abort goes elsewhere.
    Transaction,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Invalid => "no instruction",
            Self::Far => "a far branch or a return from the kernel",
            Self::ShortOperand => "a branch of 16 bits",
            Self::ThreadArea => "a use of gs, which the translator needs",
            Self::ShortInstructionPointer => "an address relative to eip",
            Self::Transaction => "the beginning of a transaction",
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { ip, why } => write!(f, "not translated at {ip:#x}: {why}"),
            Self::Unreadable { ip } => write!(f, "no code at {ip:#x}"),
            Self::NotExecutable { ip } => write!(f, "what is at {ip:#x} may not be executed"),
            Self::CodeFull => f.write_str("the code cache is full"),
            Self::DataFull => f.write_str("the translator's data memory is full"),
            Self::Memory => f.write_str("the memory given to the translator is too small or too large"),
            Self::NoVectorState => f.write_str("the processor has no xsave"),
            Self::NoThreadArea => f.write_str("the system refuses to set gs"),
        }
    }
}

impl core::error::Error for Error {}
