//! One function's instructions, and where its variables are at each of them.
//!
//! Apart from following pointers because nothing here changes while that goes on.

use super::{Accessed, File, Pointer, Variable};
use crate::names::types::{Shared, TypeId};
use crate::names::typing::{Held, Place, TypedFunction, Typing};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

const BITS: u32 = 64;
/// Variables on the stack that may lie over each other.
const OVERLAPS_MAX: usize = 8;

/// A place on the stack: the register from which it is counted, and how far from it.
pub(super) type Slot = (usize, i64);

/// A function that can be read.
pub(super) struct Function<'t, 'c> {
    file: &'t File<'c>,
    pub(super) typing: &'t Typing,
    /// By their addresses.
    pub(super) instructions: Vec<Instruction>,
    /// The code of each of its ranges.
    code: Vec<(u64, &'c [u8])>,
    /// Pointers in registers, by where they begin to be there: the code, the register, and what it points to.
    values: Vec<(Range<u64>, usize, Pointer)>,
    /// Up to where any of those reach that begin before.
    reach: Vec<u64>,
    /// Variables in memory, by the register from which they are counted and how far from it.
    slots: BTreeMap<Slot, Vec<(Range<u64>, TypeId)>>,
    /// Those whose address is taken.
    escaped: BTreeSet<Slot>,
}

/// The number that we give a register; they have others in DWARF.
pub(super) fn number(register: Register) -> Option<usize> {
    register.is_gpr64().then(|| register.number())
}

fn of_dwarf(register: u16) -> Option<usize> {
    const NUMBERS: [usize; 16] = [0, 2, 1, 3, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15];
    NUMBERS.get(usize::from(register)).copied()
}

impl<'t, 'c> Function<'t, 'c> {
    /// Reads the function of which debug information has `told`.
    pub(super) fn new(file: &'t File<'c>, told: &TypedFunction) -> Self {
        let mut ranges = told.ranges.clone();
        ranges.sort_unstable_by_key(|range| range.start);
        let code: Vec<_> = ranges.iter().filter_map(|range| Some((range.start, file.code(range)?))).collect();
        let decoded = code.iter().flat_map(|(start, code)| Decoder::with_ip(BITS, code, *start, DecoderOptions::NONE));
        let instructions = decoded.collect();
        let (values, slots, escaped) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
        let mut new = Self { file, typing: file.typing, instructions, code, values, reach: Vec::new(), slots, escaped };
        for held in &told.held {
            new.hold(held);
        }
        new.values.sort_unstable_by_key(|(range, ..)| range.start);
        let mut reach = 0;
        new.reach = new
            .values
            .iter()
            .map(|(range, ..)| {
                reach = range.end.max(reach);
                reach
            })
            .collect();
        new.escaped = new.instructions.iter().filter_map(|instruction| new.taken(instruction)).collect();
        new
    }

    fn hold(&mut self, held: &Held) {
        match held.place {
            Place::Value(register, distance) => {
                let to = self.typing.types.pointee(held.of);
                let (Some(of), Some(register)) = (to, of_dwarf(register)) else { return };
                self.values.push((held.range.clone(), register, Pointer { of, at: distance.wrapping_neg() }));
            }
            Place::Memory(register, distance) => {
                let Some(register) = of_dwarf(register) else { return };
                self.slots.entry((register, distance)).or_default().push((held.range.clone(), held.of));
            }
        }
    }

    /// The code from the instruction at `at` on.
    pub(super) fn code_at(&self, at: u64) -> &'c [u8] {
        let before = &self.code[..self.code.partition_point(|(start, _)| *start <= at)];
        // Ranges of damaged debug information may lie over each other.
        before.last().and_then(|(start, code)| code.get((at - start) as usize..)).unwrap_or_default()
    }

    /// Calls `visit` with the pointers that are known to be in registers at `at`.
    pub(super) fn each_value(&self, at: u64, mut visit: impl FnMut(usize, Pointer)) {
        let mut index = self.values.partition_point(|(range, ..)| range.start <= at);
        while let Some(before) = index.checked_sub(1).filter(|&before| self.reach[before] > at) {
            let (range, register, pointer) = &self.values[before];
            if at < range.end {
                visit(*register, *pointer);
            }
            index = before;
        }
    }

    /// The variable at that distance from where a register points, while the code is at `at`: where it begins, and which byte of it that is.
    pub(super) fn slot(&self, at: u64, register: usize, distance: i64) -> Option<(Slot, Pointer)> {
        let before = self.slots.range((register, i64::MIN)..=(register, distance)).rev().take(OVERLAPS_MAX);
        before.into_iter().find_map(|(&(register, start), variables)| {
            let byte = distance.wrapping_sub(start);
            let holds = |(range, of): &&(Range<u64>, TypeId)| {
                range.contains(&at) && (byte as u64) < self.typing.types.size(*of)
            };
            let (_, of) = variables.iter().find(holds)?;
            Some(((register, start), Pointer { of: *of, at: 0 }.moved(byte, self.typing)))
        })
    }

    /// Whether others may know the variable that begins there.
    pub(super) fn has_escaped(&self, start: Slot) -> bool {
        self.escaped.contains(&start)
    }

    /// The variable on the stack of which an instruction takes the address.
    fn taken(&self, instruction: &Instruction) -> Option<Slot> {
        let (register, distance) = match instruction.mnemonic() {
            Mnemonic::Lea => (instruction.memory_base(), instruction.memory_displacement64() as i64),
            Mnemonic::Mov if instruction.op1_kind() == OpKind::Register => (instruction.op1_register(), 0),
            _ => return None,
        };
        Some(self.slot(instruction.ip(), number(register)?, distance)?.0)
    }

    /// What lies at an address of the file.
    pub(super) fn fixed(&self, address: u64) -> Option<Pointer> {
        let fixed = &self.typing.fixed;
        let before = fixed[..fixed.partition_point(|variable| variable.address <= address)].last()?;
        let byte = address - before.address;
        (byte < before.size).then(|| Pointer { of: before.of, at: 0 }.moved(byte as i64, self.typing))
    }

    /// What the word at an address of the file points to, if the loader puts an address there.
    pub(super) fn loaded(&self, slot: u64) -> Option<Pointer> {
        self.file.slots.get(&slot).and_then(|address| self.fixed(*address))
    }

    /// What an access of so many bytes meets by that pointer.
    pub(super) fn accessed(&self, pointer: Option<Pointer>, address: Option<u64>, bytes: usize, own: bool) -> Accessed {
        let leaf = pointer.map(|pointer| pointer.leaf(self.typing, bytes)).unwrap_or_default();
        let member = leaf.member.map(|(name, byte)| Variable::Member(name, byte));
        let own = own && leaf.shared < Shared::Atomic;
        Accessed { variables: [member, address.map(Variable::At)], shared: leaf.shared, own }
    }
}
