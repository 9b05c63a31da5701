//! Where a function's jumps by tables lead, as compilers lay them.
//!
//! ```text
//! lea rdx, [rip + table]            jmp [table + rcx * 8]           mov rcx, [rdx + rcx * 8]
//! movsxd rcx, [rdx + rcx * 4]                                       jmp rcx
//! add rcx, rdx
//! jmp rcx
//! ```
//!
//! Entries are distances from the table's own address, or addresses. Whatever a `lea` of the
//! function names is read as if it were such a table, as far as what stands there leads to code:
//! more may seem to be entered than is, and never less. Where a table of addresses lies may be
//! known to a register alone, as in an interpreter that jumps from each of its instructions to the
//! next, or the program that it interprets has the addresses. What is not added up was an address
//! somewhere in memory: so of such a jump, which is mostly a call of another function that does not
//! come back, any word of the file counts, those by which the loader writes its tables
//! among them (`R_X86_64_RELATIVE`).
//!
//! Apart because all else in this folder looks at instructions alone.

use crate::decode::{Instruction, length};
use crate::frames::Known;
use crate::frames::marks::Marks;
use core::ops::Range;

/// Entries of a table, at most.
const ENTRIES: usize = 4096;
/// So far back it is looked for where a register comes from.
const BACK: usize = 8;
const NO_BASE: u8 = 5;
/// Of a prefix: the operand has eight bytes.
const WIDE: u8 = 8;

/// Where the jumps of one function lead that go by tables and registers: found out with the first question about it.
#[derive(Debug)]
pub(crate) struct Entered {
    function: Range<usize>,
    marks: Marks,
    /// Anywhere.
    unknown: bool,
    /// To whatever a word of the file names.
    loads: bool,
}

impl Entered {
    pub(crate) const fn new() -> Self {
        Self { function: 0..0, marks: Marks::NONE, unknown: false, loads: false }
    }

    /// Whether a jump in `function` may lead into `room`, behind its beginning: both by offsets in the file. `true` as well
    /// if nobody knows.
    pub(crate) fn may_be(&mut self, known: &Known<'_>, function: &Range<usize>, room: &Range<usize>) -> bool {
        if self.function != *function {
            self.function = function.clone();
            self.unknown = self.marks.start(function.clone()).is_none() || self.look(known).is_none();
        }
        let inside = room.start + 1..room.end;
        self.unknown || self.marks.any(inside.clone()) || self.loads && known.names(inside)
    }

    /// Marks where they lead; `None` if it is not known of one.
    fn look(&mut self, known: &Known<'_>) -> Option<()> {
        let code = known.bytes().get(..self.function.end)?;
        let (mut at, mut before) = (self.function.start, [0; BACK]);
        let (mut adds_up, mut has_tables) = (false, false);
        self.loads = false;
        while at < code.len() {
            let bytes = length(&code[at..])?;
            let wanted = may_be_wanted(&code[at..]).then(|| Instruction::at(&code[at..])).flatten();
            match wanted.map_or(Way::Elsewhere, |found| Way::of(&found, code, at, &before)) {
                Way::Elsewhere => {}
                Way::Unknown => return None,
                Way::AddsUp => adds_up = true,
                Way::Loads => self.loads = true,
                Way::Names(distance) => {
                    has_tables = true;
                    if let Some(behind) = known.address_of(at + bytes) {
                        distances(known, behind.wrapping_add_signed(distance)).for_each(|to| self.marks.mark(to));
                    }
                }
                Way::By(table) => addresses(known, table).for_each(|to| self.marks.mark(to)),
            }
            before.rotate_right(1);
            before[0] = at;
            at += bytes;
        }
        (!adds_up || has_tables).then_some(())
    }
}

/// `lea`, and what jumps by an operand.
fn may_be_wanted(code: &[u8]) -> bool {
    let opcode = code.iter().take_while(|byte| matches!(byte, 0x3E | 0x40..=0x4F | 0x66 | 0xF2)).count();
    matches!(code.get(opcode), Some(0x8D | 0xFF))
}

/// What an instruction has to do with tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Nothing, or it jumps where it says itself.
    Elsewhere,
    /// It jumps by a register that was added up.
    AddsUp,
    /// It names what lies at this distance behind it.
    Names(isize),
    /// It jumps by the table at this address.
    By(usize),
    /// It jumps to an address that somebody had in memory: of a label in a table, or of a function.
    Loads,
    /// It jumps, and nobody knows where to.
    Unknown,
}

impl Way {
    /// Of the instruction at `at`; those before it begin at `before`, the last one first.
    fn of(found: &Instruction, code: &[u8], at: usize, before: &[usize]) -> Self {
        let Some(operands) = found.operands.filter(|_| found.map == 0) else { return Self::Elsewhere };
        let behind = &code[at + found.opcode_at + 2..];
        let distance = |bytes: &[u8]| bytes.first_chunk().map(|bytes| i32::from_le_bytes(*bytes));
        let (mode, rest) = (operands >> 6, operands & 7);
        match (found.opcode, operands >> 3 & 7) {
            (0x8D, _) if found.relative => distance(behind).map_or(Self::Unknown, |far| Self::Names(far as isize)),
            // From one segment to another: nobody does.
            (0xFF, 5) => Self::Unknown,
            (0xFF, 4) if mode == 3 => from(rest | (found.rex & 1) << 3, code, before),
            (0xFF, 4) if mode != 3 => Self::by_memory(found, &code[at..]),
            _ => Self::Elsewhere,
        }
    }

    /// Of what jumps to an address that this instruction reads from memory.
    fn by_memory(found: &Instruction, code: &[u8]) -> Self {
        let Some(operands) = found.operands else { return Self::Unknown };
        let behind = &code[found.opcode_at + 2..];
        let scaled = behind.first().copied().unwrap_or(0);
        let has_index = operands & 7 == 4 && (scaled >> 3 & 7 != 4 || found.rex & 2 != 0);
        if !has_index || operands >> 6 != 0 || scaled & 7 != NO_BASE {
            return Self::Loads;
        }
        let table = behind.get(1..).and_then(<[u8]>::first_chunk).map(|bytes| i32::from_le_bytes(*bytes));
        table.map_or(Self::Unknown, |table| Self::By(table as usize))
    }
}

/// Where a jump by this register leads, by the last instruction that set it.
fn from(register: u8, code: &[u8], before: &[usize]) -> Way {
    for &at in before.iter().take_while(|&&at| at != 0) {
        let Some(found) = Instruction::at(&code[at..]) else { return Way::Unknown };
        if found.map == 0 && found.opcode & 0xF8 == 0x58 && found.opcode & 7 | (found.rex & 1) << 3 == register {
            return Way::Loads;
        }
        let Some(operands) = found.operands else { continue };
        let own = operands >> 3 & 7 | (found.rex & 4) << 1;
        let other = (operands >> 6 == 3).then_some(operands & 7 | (found.rex & 1) << 3);
        match (found.map, found.opcode) {
            (0, 0x01) if other == Some(register) => return Way::AddsUp,
            (0, 0x03) if own == register => return Way::AddsUp,
            (0, 0x89) if other == Some(register) => return Way::Loads,
            (0, 0x8B) if own == register && other.is_some() => return Way::Loads,
            // Entries of four bytes are nobody's but a hand's.
            (0, 0x8B) if own == register && found.rex & WIDE == 0 => return Way::Unknown,
            (0, 0x8B) if own == register => return Way::by_memory(&found, &code[at..]),
            (0, 0x8D | 0x63) if own == register => return Way::Unknown,
            _ => {}
        }
    }
    Way::Unknown
}

/// Where the entries of the table at an address lead, if they are distances from there; by offsets in the file.
fn distances(known: &Known<'_>, table: usize) -> impl Iterator<Item = usize> {
    let entries = known.offset_of(table).and_then(|at| known.bytes().get(at..)).unwrap_or(&[]);
    let entries = entries.as_chunks::<4>().0.iter().take(ENTRIES).map(|entry| i32::from_le_bytes(*entry));
    entries.map_while(move |far| known.code_at(table.wrapping_add_signed(far as isize)))
}

/// The same of entries that are addresses.
fn addresses(known: &Known<'_>, table: usize) -> impl Iterator<Item = usize> {
    let entries = known.offset_of(table).and_then(|at| known.bytes().get(at..)).unwrap_or(&[]);
    let entries = entries.as_chunks::<8>().0.iter().take(ENTRIES).map(|entry| u64::from_le_bytes(*entry));
    entries.map_while(move |address| known.code_at(address as usize))
}

#[cfg(test)]
mod tests {
    use super::Way;
    use crate::decode::Instruction;

    /// The way of the last instruction of some.
    fn way(instructions: &[&[u8]]) -> Way {
        let mut code = vec![0x90];
        let mut before = [0; super::BACK];
        let mut at = 1;
        for instruction in instructions {
            code.extend_from_slice(instruction);
            if code.len() < 1 + instructions.concat().len() {
                before.rotate_right(1);
                before[0] = at;
                at = code.len();
            }
        }
        code.extend([0x90; 16]);
        let found = Instruction::at(&code[at..]).unwrap();
        Way::of(&found, &code, at, &before)
    }

    #[test]
    fn each_jump_goes_by_a_table_or_away() {
        let (jump_rcx, jump_rax): (&[u8], &[u8]) = (&[0xFF, 0xE1], &[0xFF, 0xE0]);
        assert_eq!(way(&[&[0x48, 0x01, 0xD1], jump_rcx]), Way::AddsUp, "add rcx, rdx");
        assert_eq!(way(&[&[0x48, 0x01, 0xD1], &[0x5B], jump_rcx]), Way::AddsUp, "pop rbx in between");
        assert_eq!(
            way(&[&[0x48, 0x03, 0xCA], &[0x3E, 0xFF, 0xE1]]),
            Way::AddsUp,
            "add rcx, rdx the other way, notrack"
        );
        assert_eq!(way(&[&[0x48, 0x8B, 0x07], &[0x5B], jump_rax]), Way::Loads, "mov rax, [rdi]");
        assert_eq!(way(&[&[0x48, 0x89, 0xF8], jump_rax]), Way::Loads, "mov rax, rdi");
        assert_eq!(way(&[&[0x48, 0x8B, 0x04, 0xC7], jump_rax]), Way::Loads, "mov rax, [rdi + rax * 8]");
        let load = [0x48, 0x8B, 0x04, 0xC5, 0, 0x10, 0x40, 0];
        assert_eq!(way(&[&load, jump_rax]), Way::By(0x40_1000), "mov rax, [0x401000 + rax * 8]");
        assert_eq!(way(&[&load[1..], jump_rax]), Way::Unknown, "mov eax, [0x401000 + rax * 8]");
        assert_eq!(way(&[&[0x48, 0x8B, 0xC1], jump_rax]), Way::Loads, "mov rax, rcx the other way");
        assert_eq!(way(&[&[0x90], jump_rax]), Way::Unknown, "from nowhere");
        assert_eq!(way(&[&[0x58], jump_rax]), Way::Loads, "pop rax");
        assert_eq!(way(&[&[0xFF, 0x25, 1, 0, 0, 0]]), Way::Loads, "a function of a library");
        assert_eq!(way(&[&[0xFF, 0x60, 0x18]]), Way::Loads, "a function of an object");
        assert_eq!(way(&[&[0xFF, 0x23]]), Way::Loads, "jmp [rbx], where a program has labels");
        assert_eq!(way(&[&[0xFF, 0x24, 0xC5, 0, 0x10, 0x40, 0]]), Way::By(0x40_1000));
        assert_eq!(way(&[&[0xFF, 0x24, 0xC2]]), Way::Loads, "jmp [rdx + rax * 8]");
        assert_eq!(way(&[&[0xFF, 0x64, 0xC2, 0x08]]), Way::Loads, "jmp [rdx + rax * 8 + 8]");
        assert_eq!(way(&[&[0x48, 0x8D, 0x15, 0x10, 0, 0, 0]]), Way::Names(16));
        assert_eq!(way(&[&[0x48, 0x8D, 0x50, 0x10]]), Way::Elsewhere, "lea rdx, [rax + 16]");
    }
}
