//! Call frame information of one file: from the registers of a frame to those of its caller.
//!
//! Apart from the walk over frames because it knows one file and its own addresses. The
//! sections are read once and sorted by address: many stacks lead through the same file.

use super::machine::{Memory, Origin, Registers};
use crate::names::elf::{self, Elf};
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, DebugFrame, EhFrame, EndianSlice, EvaluationResult, Expression,
    FrameDescriptionEntry, LittleEndian, Location, Reader, Register, RegisterRule, UnwindContext, UnwindExpression,
    UnwindSection, UnwindTableRow, Value,
};
use object::{Object, ObjectSection};
use std::ops::Range;
use std::path::Path;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Operations that an expression may take: no real one takes as many, a broken one could take all.
const OPERATIONS_MAX: u32 = 1000;

/// What a file says of its frames.
pub(super) struct Tables {
    /// `.eh_frame`, which programs use themselves.
    eh_frame: Table,
    /// `.debug_frame`, where a compiler was told to leave that out.
    debug_frame: Table,
    bases: BaseAddresses,
}

/// A section with where its entries are.
struct Table {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

/// The code that one entry is about, and the entry's offset.
struct Entry {
    start: u64,
    end: u64,
    offset: usize,
}

/// An entry by its section and offset.
#[derive(Clone, Copy)]
pub(super) enum Place {
    EhFrame(usize),
    DebugFrame(usize),
}

/// A caller.
pub(super) struct Caller {
    /// Its registers; `None` where there is none, or it is not known.
    pub(super) registers: Option<Registers>,
    /// Where its address stands.
    pub(super) slot: Option<u64>,
    /// It did not call: a signal struck it there.
    pub(super) interrupted: bool,
}

impl Tables {
    /// Reads a file's sections; `None` if there is no such file.
    pub(super) fn open(path: &Path) -> Option<Self> {
        elf::with_elf(path, |file| {
            let bases = bases(file);
            let [bytes, debug] = [".eh_frame", ".debug_frame"].map(|name| elf::section(file, name));
            let eh_frame = Table { entries: entries(&eh_frame(&bytes), &bases), bytes };
            let debug_frame = Table { entries: entries(&debug_frame(&debug), &bases), bytes: debug };
            Self { eh_frame, debug_frame, bases }
        })
    }

    /// The entry about the code at `address` in the file's terms.
    pub(super) fn find(&self, address: u64) -> Option<Place> {
        let apart = || self.debug_frame.find(address).map(Place::DebugFrame);
        self.eh_frame.find(address).map(Place::EhFrame).or_else(apart)
    }

    /// The pieces of code that have an entry each, by their addresses: functions, or parts of one.
    pub(super) fn functions(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let of_program = if self.eh_frame.entries.is_empty() { &self.debug_frame } else { &self.eh_frame };
        of_program.entries.iter().map(|entry| entry.start..entry.end)
    }

    /// For the pieces of the function at `address`: the register from which its frame is counted, and how far above it lies.
    pub(super) fn rows_about(&self, address: u64) -> Vec<(Range<u64>, u16, i64)> {
        match self.find(address) {
            Some(Place::EhFrame(offset)) => rows(&eh_frame(&self.eh_frame.bytes), &self.bases, offset),
            Some(Place::DebugFrame(offset)) => rows(&debug_frame(&self.debug_frame.bytes), &self.bases, offset),
            None => Vec::new(),
        }
    }

    /// The caller of the frame with these registers by an entry about `address`: the instruction, or the byte before
    /// the one to which a call returns. `None` if nobody can say where the frame is.
    pub(super) fn caller(
        &self,
        entry: Place,
        address: u64,
        registers: &Registers,
        memory: Memory<'_>,
    ) -> Option<Caller> {
        let frame = Frame { address, bases: &self.bases, registers, memory };
        match entry {
            Place::EhFrame(offset) => frame.caller(&eh_frame(&self.eh_frame.bytes), offset),
            Place::DebugFrame(offset) => frame.caller(&debug_frame(&self.debug_frame.bytes), offset),
        }
    }
}

fn bases(file: &Elf<'_>) -> BaseAddresses {
    let address = |name| file.section_by_name(name).map_or(0, |section| section.address());
    BaseAddresses::default().set_eh_frame(address(".eh_frame")).set_text(address(".text")).set_got(address(".got"))
}

fn eh_frame(bytes: &[u8]) -> EhFrame<Slice<'_>> {
    let mut section = EhFrame::new(bytes, LittleEndian);
    section.set_address_size(8);
    section
}

fn debug_frame(bytes: &[u8]) -> DebugFrame<Slice<'_>> {
    let mut section = DebugFrame::new(bytes, LittleEndian);
    section.set_address_size(8);
    section
}

impl Table {
    /// The entry about `address`.
    fn find(&self, address: u64) -> Option<usize> {
        let before = self.entries.partition_point(|entry| entry.start <= address);
        let entry = self.entries[..before].last()?;
        (address < entry.end).then_some(entry.offset)
    }
}

/// The entries of a section by address, up to the first that can't be told from the next.
fn entries<'a, S: UnwindSection<Slice<'a>>>(section: &S, bases: &BaseAddresses) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut all = section.entries(bases);
    while let Ok(Some(entry)) = all.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let offset = partial.offset();
        let Ok(entry) = partial.parse(S::cie_from_offset) else { continue };
        let (start, end) = (entry.initial_address(), entry.end_address());
        if start < end {
            entries.push(Entry { start, end, offset });
        }
    }
    entries.sort_by_key(|entry| entry.start);
    entries
}

/// Where the canonical frame address is by the entry at `offset`, as long as it is counted from a register.
fn rows<'a, S: UnwindSection<Slice<'a>>>(
    section: &S,
    bases: &BaseAddresses,
    offset: usize,
) -> Vec<(Range<u64>, u16, i64)> {
    let mut found = Vec::new();
    let mut context = UnwindContext::new();
    let Ok(entry) = section.fde_from_offset(bases, offset.into(), S::cie_from_offset) else { return found };
    let Ok(mut rows) = entry.rows(section, bases, &mut context) else { return found };
    while let Ok(Some(row)) = rows.next_row() {
        if let CfaRule::RegisterAndOffset { register, offset } = row.cfa() {
            found.push((row.start_address()..row.end_address(), register.0, *offset));
        }
    }
    found
}

/// One frame, and what it takes to leave it.
struct Frame<'a> {
    address: u64,
    bases: &'a BaseAddresses,
    registers: &'a Registers,
    memory: Memory<'a>,
}

impl Frame<'_> {
    /// By the entry at `offset` of `section`.
    fn caller<'a, S: UnwindSection<Slice<'a>>>(&self, section: &S, offset: usize) -> Option<Caller> {
        let entry = section.fde_from_offset(self.bases, offset.into(), S::cie_from_offset).ok()?;
        let mut context = UnwindContext::new();
        let row = entry.unwind_info_for_address(section, self.bases, &mut context, self.address).ok()?;
        if entry.cie().return_address_register() != Register(Registers::RIP) {
            return None;
        }
        let rules = Rules { frame: self, section, entry: &entry };
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                self.registers.get(register.0)?.wrapping_add_signed(*offset)
            }
            CfaRule::Expression(expression) => rules.evaluate(expression, None)?,
        };
        Some(Caller { interrupted: entry.is_signal_trampoline(), ..rules.caller(row, cfa) })
    }
}

/// The rules of one place in the code.
struct Rules<'a, S, R: Reader<Offset = usize>> {
    frame: &'a Frame<'a>,
    section: &'a S,
    entry: &'a FrameDescriptionEntry<R, usize>,
}

/// A register of the caller.
#[derive(Default)]
struct Found {
    value: Option<u64>,
    origin: Option<Origin>,
}

impl<'a, S: UnwindSection<Slice<'a>>> Rules<'_, S, Slice<'a>> {
    fn caller(&self, row: &UnwindTableRow<usize>, cfa: u64) -> Caller {
        let mut registers = self.frame.registers.kept();
        registers.set(Registers::RSP, Some(cfa));
        let mut slot = None;
        for (register, rule) in row.registers() {
            let found = self.register(register.0, rule, cfa).unwrap_or_default();
            registers.set_from(register.0, found.value, found.origin);
            if let (Registers::RIP, Some(Origin::Slot(at))) = (register.0, found.origin) {
                slot = Some(at);
            }
        }
        let known = [Registers::RIP, Registers::RSP].iter().all(|&number| registers.get(number).is_some());
        Caller { registers: known.then_some(registers), slot, interrupted: false }
    }

    /// `None` if there is no such value, or nobody can say where it is.
    fn register(&self, number: u16, rule: &RegisterRule<usize>, cfa: u64) -> Option<Found> {
        let at = |slot| Found { value: self.frame.memory.word(slot), origin: Some(Origin::Slot(slot)) };
        let is = |value| Found { value, origin: None };
        let same = || Found { value: self.frame.registers.get(number), origin: self.frame.registers.origin(number) };
        Some(match rule {
            RegisterRule::SameValue => same(),
            RegisterRule::Offset(offset) if self.restored(number, rule, *offset, cfa) => same(),
            RegisterRule::Offset(offset) => at(cfa.wrapping_add_signed(*offset)),
            RegisterRule::ValOffset(offset) => is(Some(cfa.wrapping_add_signed(*offset))),
            RegisterRule::Register(other) => is(self.frame.registers.get(other.0)),
            RegisterRule::Expression(expression) => at(self.evaluate(expression, Some(cfa))?),
            RegisterRule::ValExpression(expression) => is(self.evaluate(expression, Some(cfa))),
            RegisterRule::Constant(value) => is(Some(*value)),
            _ => return None,
        })
    }

    /// The register has its caller's value again. Compilers leave the rule as it was when a function takes a register
    /// from the stack at its end: it names a place below the stack then, of which no snapshot has anything. That the
    /// place was part of the stack before tells it from one in the red zone, where the caller's value still is.
    fn restored(&self, number: u16, rule: &RegisterRule<usize>, offset: i64, cfa: u64) -> bool {
        let top = self.frame.registers.get(Registers::RSP);
        if number == Registers::RIP || top.is_none_or(|top| cfa.wrapping_add_signed(offset) >= top) {
            return false;
        }
        let mut context = UnwindContext::new();
        let Ok(mut rows) = self.entry.rows(self.section, self.frame.bases, &mut context) else { return false };
        while let Ok(Some(row)) = rows.next_row() {
            if row.start_address() > self.frame.address {
                break;
            }
            let held = matches!(row.cfa(), CfaRule::RegisterAndOffset { register: Register(Registers::RSP), offset: size }
                if size.checked_add(offset).is_some_and(|above| above >= 0));
            if held && row.register(Register(number)) == *rule {
                return true;
            }
        }
        false
    }

    fn evaluate(&self, expression: &UnwindExpression<usize>, first: Option<u64>) -> Option<u64> {
        let expression: Expression<Slice<'a>> = expression.get(self.section).ok()?;
        let mut evaluation = expression.evaluation(self.entry.cie().encoding());
        evaluation.set_max_iterations(OPERATIONS_MAX);
        if let Some(first) = first {
            evaluation.set_initial_value(first);
        }
        let mut state = evaluation.evaluate().ok()?;
        loop {
            state = match state {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresMemory { address, size, space: None, .. } => {
                    let number = self.frame.memory.number(address, size)?;
                    evaluation.resume_with_memory(Value::Generic(number)).ok()?
                }
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = self.frame.registers.get(register.0)?;
                    evaluation.resume_with_register(Value::Generic(value)).ok()?
                }
                _ => return None,
            };
        }
        match evaluation.as_result() {
            [piece] => match piece.location {
                Location::Address { address } => Some(address),
                _ => None,
            },
            _ => None,
        }
    }
}
