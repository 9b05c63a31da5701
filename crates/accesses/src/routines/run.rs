//! What `rep stos` writes, line after line, without leaving the cache.
//!
//! Compilers set small pieces of memory to zero by it. A visit, which keeps the vector
//! registers, costs ten times as much as the instruction itself.
//!
//! Apart from the routines for accesses of a known size: this one is a loop.

use super::{ADDRESS, INDEX, MASK, OTHER, Routine, TEMPORARY, mark};
use crate::check::Manner;
use crate::classify::string;
use crate::layout::{LINE_BITS, ones, span_word, tool, word};
use crate::processor::Bits;
use crate::what::{Class, Kind, What};
use relive_dbi::{Assembler, Condition, Forward, Gpr, Inserter, Operand, RoutineWriter};

const LINE: i32 = 1 << LINE_BITS;

/// Whether the routine can note such an access, rather than a visit.
pub(crate) fn can(how: Manner, what: What) -> bool {
    what.class == Class::String && what.operation == string::STORE && how.bits != Bits::Plain && !how.exact
}

/// Writes code that asks for the routine.
pub(crate) fn insert(insert: &mut Inserter<'_, '_>, what: What) {
    let register = insert.scratch().expect("the first of four registers");
    insert.clobber_flags();
    let code = insert.code();
    code.store(tool(word::ADDRESS), Gpr::RDI);
    code.lea(register, Operand::indexed(None, Gpr::RCX, what.element, 0));
    code.store(tool(word::SPAN), register);
    code.constant(register, what.pack());
    code.store(tool(word::WHAT), register);
    // Always: no thread has its stack at 0.
    code.test_with(Gpr::RSP, Gpr::RSP);
    insert.aside(Condition::NotEqual, |aside| aside.routine(Routine::Run.number(), register));
    insert.give_back(register);
}

/// Notes as many bytes as the tool's word `SPAN` says as written. A visit does what goes downwards, and all of it where
/// something is special.
pub(super) fn write(w: &mut RoutineWriter<'_, '_>, how: Manner) {
    let number = w.begin(5);
    debug_assert_eq!(number, Routine::Run.number());
    let mut leaves = [const { None }; 4];
    if how.bits != Bits::Plain && !how.exact {
        let code = w.code();
        leaves[3] = Some(if_downwards(code));
        code.load(ADDRESS, tool(word::ADDRESS));
        code.load(OTHER, tool(word::SPAN));
        code.test_with(OTHER, OTHER);
        let nothing = code.jump_if(Condition::Equal);
        let again = code.here();
        mask_of_line(code);
        mark(code, how, Kind::Write, &mut leaves[..3]);
        let ends = to_next_line(code);
        code.jump_to(again);
        ends.into_iter().chain([nothing]).for_each(|end| code.bind(end));
        w.back();
    }
    let code = w.code();
    leaves.into_iter().flatten().for_each(|leave| code.bind(leave));
    w.leave();
}

/// Branches where the direction flag is set. Without the stack only an instruction that goes by it tells: one that loads
/// the area's first byte.
fn if_downwards(code: &mut Assembler<'_>) -> Forward {
    code.load(TEMPORARY, Operand::area(0));
    // lodsb
    code.bytes(&[0xAC]);
    code.compare(TEMPORARY, Operand::area(0));
    code.jump_if(Condition::Below)
}

/// Makes [`MASK`] the bits of what is left, from [`ADDRESS`] on, in its line.
fn mask_of_line(code: &mut Assembler<'_>) {
    let all = tool(span_word(LINE as u32).expect("a word with all bits"));
    code.shifted_left(MASK, all, ADDRESS);
    code.copy(OTHER, ADDRESS);
    code.and_short(OTHER, ones(LINE_BITS) as u32);
    code.load(TEMPORARY, tool(word::SPAN));
    // Where it ends, from the beginning of the line on.
    code.lea(OTHER, Operand::indexed(Some(OTHER), TEMPORARY, 1, 0));
    code.copy(TEMPORARY, OTHER);
    code.shift_right(TEMPORARY, LINE_BITS as u8);
    code.test_with(TEMPORARY, TEMPORARY);
    let to_its_end = code.jump_if(Condition::NotEqual);
    code.negate(OTHER);
    code.shifted_right(TEMPORARY, all, OTHER);
    code.and_with(MASK, TEMPORARY);
    code.bind(to_its_end);
}

/// Makes [`ADDRESS`] that of the next line. Branches where nothing is left.
fn to_next_line(code: &mut Assembler<'_>) -> [Forward; 2] {
    code.copy(TEMPORARY, ADDRESS);
    code.and_short(TEMPORARY, ones(LINE_BITS) as u32);
    // Less than zero: as many bytes as the line has from the address on.
    code.lea(TEMPORARY, Operand::at(TEMPORARY, -LINE));
    code.load(OTHER, tool(word::SPAN));
    code.lea(OTHER, Operand::indexed(Some(OTHER), TEMPORARY, 1, 0));
    code.store(tool(word::SPAN), OTHER);
    code.negate(TEMPORARY);
    code.lea(ADDRESS, Operand::indexed(Some(ADDRESS), TEMPORARY, 1, 0));
    code.copy(INDEX, OTHER);
    code.shift_right(INDEX, 63);
    code.test_with(INDEX, INDEX);
    let behind = code.jump_if(Condition::NotEqual);
    code.test_with(OTHER, OTHER);
    [behind, code.jump_if(Condition::Equal)]
}
