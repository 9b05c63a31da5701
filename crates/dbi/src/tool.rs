//! What a tool sees of an instruction, and what it may insert before it.
//!
//! A tool looks at each instruction once, when its block is translated, and writes
//! code that runs each time before the instruction, by the
//! [`Inserter`](crate::Inserter). Before that it can look at the block as a whole, and
//! leave a note at each instruction for itself.

use crate::decode::Flow;
use crate::inserter::Inserter;
use crate::memory::{Reserve, ToolMemory};
use crate::register::{Gpr, GprSet};
use crate::routine::RoutineWriter;
use crate::visit::Visit;
use iced_x86::{Code, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, UsedMemory};

/// Decides what is inserted where.
pub trait Tool: Sync {
    /// Inserts code before the instruction. Called under the translator's lock: it may not wait for a thread that
    /// runs translated code.
    fn instrument(&self, site: &Site<'_>, insert: &mut Inserter<'_, '_>) {
        let _ = (site, insert);
    }

    /// Whether the instruction itself is run as it is, or handed over each time.
    fn treatment(&self, site: &Site<'_>) -> Treatment {
        let _ = site;
        Treatment::Copy
    }

    /// Looks at a block before anything is inserted into it. Bound as [`Self::instrument`] is.
    fn survey(&self, survey: &mut Survey<'_>) {
        let _ = survey;
    }

    /// Writes the routines that rare parts go to, once, when the engine is made.
    fn routines(&self, write: &mut RoutineWriter<'_, '_>) {
        let _ = write;
    }

    /// The memory that each thread has for the tool besides its area.
    fn reserve(&self) -> Reserve {
        Reserve::default()
    }

    /// A thread is about to enter the cache for the first time; `memory` is zero.
    fn attach(&self, memory: &mut ToolMemory<'_>) {
        let _ = memory;
    }

    /// Inserted code left the cache: where [`Inserter::visit`] was asked for, or by
    /// [`RoutineWriter::leave`]. Runs on the thread's own stack of ours, without any lock.
    fn visit(&self, visit: &mut Visit<'_>) {
        let _ = visit;
    }
}

/// A tool that inserts nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Tool for Plain {}

/// What becomes of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// It runs where it is translated.
    Copy,
    /// Each time, the thread saves everything and calls [`Host::event`](crate::Host::event) first: for system calls,
    /// `cpuid` and others that are rare.
    Event,
}

/// An instruction of the program.
#[derive(Debug)]
pub struct Site<'a> {
    pub(crate) instruction: &'a Instruction,
    pub(crate) flow: Flow,
    pub(crate) memory: &'a [UsedMemory],
    pub(crate) note: Note,
}

/// What a tool notes at an instruction, for itself.
pub type Note = [u64; 4];

/// A block, before it is translated.
pub struct Survey<'a> {
    pub(crate) instructions: &'a [Instruction],
    pub(crate) factory: &'a mut InstructionInfoFactory,
    pub(crate) notes: &'a mut [Note],
}

impl Survey<'_> {
    /// How many instructions it has, not more than 64.
    pub fn count(&self) -> usize {
        self.instructions.len()
    }

    /// The instruction `index`, and the general registers that it may change.
    ///
    /// # Panics
    /// If there is no such instruction.
    pub fn look<R>(&mut self, index: usize, look: impl FnOnce(&Site<'_>, GprSet) -> R) -> R {
        let instruction = &self.instructions[index];
        let info = self.factory.info(instruction);
        let changes =
            |access| !matches!(access, OpAccess::None | OpAccess::NoMemAccess | OpAccess::Read | OpAccess::CondRead);
        let changed = info.used_registers().iter().filter(|used| changes(used.access()));
        let changed = changed.filter_map(|used| Gpr::containing(used.register())).fold(GprSet::NONE, GprSet::with);
        let flow = crate::decode::flow(instruction).expect("a block has nothing that is refused");
        let site = Site { instruction, flow, memory: info.used_memory(), note: self.notes[index] };
        look(&site, changed)
    }

    /// Leaves a note at the instruction `index`, for [`Site::note`].
    ///
    /// # Panics
    /// If there is no such instruction.
    pub fn note(&mut self, index: usize, note: Note) {
        self.notes[index] = note;
    }
}

impl<'a> Site<'a> {
    /// Where it stands in the program.
    pub fn ip(&self) -> u64 {
        self.instruction.ip()
    }

    /// The instruction, decoded.
    pub fn instruction(&self) -> &'a Instruction {
        self.instruction
    }

    /// How it goes on.
    pub fn flow(&self) -> Flow {
        self.flow
    }

    /// What the tool noted when it surveyed the block; zeroes if nothing.
    pub fn note(&self) -> Note {
        self.note
    }

    /// Whether it is a system call of 64 bits.
    pub fn is_system_call(&self) -> bool {
        self.instruction.code() == Code::Syscall
    }

    /// Whether its memory accesses are one atomic step.
    pub fn is_locked(&self) -> bool {
        let exchange = self.instruction.mnemonic() == Mnemonic::Xchg
            && (0..self.instruction.op_count()).any(|n| self.instruction.op_kind(n) == OpKind::Memory);
        self.instruction.has_lock_prefix() || exchange
    }

    /// The memory that it reads and writes, what it does so without saying (stack, strings) included.
    pub fn accesses(&self) -> impl Iterator<Item = Access<'a>> + use<'a> {
        let repeated = self.instruction.has_rep_prefix() || self.instruction.has_repne_prefix();
        let repeated = repeated && self.instruction.is_string_instruction();
        self.memory.iter().filter_map(move |memory| Access::of(memory, repeated))
    }
}

/// What is done to the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// It is read.
    Read,
    /// It is written.
    Write,
    /// Both, in this order.
    ReadWrite,
}

/// One access to memory.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// What is done.
    pub kind: AccessKind,
    /// How much, in bytes; 0 where that depends on the processor's state, as for `xsave`.
    pub bytes: usize,
    /// It may not happen, or not to all of the bytes: by a mask, a comparison, a count.
    pub conditional: bool,
    /// It happens rcx times, upwards or downwards by the direction flag.
    pub repeated: bool,
    /// It is a gather or scatter: the address is another for each element.
    pub scattered: bool,
    pub(crate) memory: &'a UsedMemory,
}

impl<'a> Access<'a> {
    fn of(memory: &'a UsedMemory, repeated: bool) -> Option<Self> {
        let (kind, conditional) = match memory.access() {
            OpAccess::Read => (AccessKind::Read, false),
            OpAccess::CondRead => (AccessKind::Read, true),
            OpAccess::Write => (AccessKind::Write, false),
            OpAccess::CondWrite => (AccessKind::Write, true),
            OpAccess::ReadWrite => (AccessKind::ReadWrite, false),
            OpAccess::ReadCondWrite => (AccessKind::ReadWrite, true),
            OpAccess::None | OpAccess::NoMemAccess => return None,
        };
        let scattered = memory.index().is_vector_register();
        let bytes = memory.memory_size().size();
        Some(Self { kind, bytes, conditional: conditional || repeated, repeated, scattered, memory })
    }

    /// Where, as the decoder describes it.
    pub fn memory(&self) -> &'a UsedMemory {
        self.memory
    }
}
