//! Functions of a library whose own code is not looked at: what they did to memory of
//! their callers is told when they return.
//!
//! Where such a function begins stands a note of its arguments, and before each `ret`
//! of the library a comparison of the stack pointer with what it was there. The two
//! meet by the stack alone: however the function got to its `ret`, by whatever tail
//! calls. What is called from within the library itself is passed over. One call at a
//! time is followed; one that is left by a jump, or that a signal's handler interrupts
//! for a call of its own, is counted.
//!
//! Apart from the checks because nothing here stands for an instruction's access.

use crate::layout::{tool, word};
use crate::routines::Routine;
use crate::segment::Segment;
use crate::stored::Stored;
use crate::what::Kind;
use crate::{Accesses, Sink};
use core::ops::Range;
use relive_dbi::{Condition, Flow, Gpr, Inserter, Operand, Site, ToolMemory, Visit};

/// Arguments that are kept: those in registers.
pub(crate) const ARGUMENTS: usize = 6;
const REGISTERS: [Gpr; ARGUMENTS] = [Gpr::RDI, Gpr::RSI, Gpr::RDX, Gpr::RCX, Gpr::R8, Gpr::R9];
const RAX: usize = 0;
const RSP: usize = 4;

/// A function to be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    /// By which the sink knows it.
    pub number: u32,
    /// How many of its first arguments are wanted, 6 at most.
    pub arguments: u8,
    /// Which of them is a `va_list`, if one is.
    pub list: Option<u8>,
    /// Whether its result is in a vector register.
    pub floating: bool,
}

/// In the upper half of the function's number: its result is in a vector register.
pub(crate) const FLOATING: u32 = 1 << 31;

/// A call that is about to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// The function's.
    pub number: u32,
    /// Its first arguments, as far as they were wanted.
    pub arguments: [u64; ARGUMENTS],
    /// The first two words of the `va_list` as they were when it began.
    pub list: [u64; 2],
    /// What is in rax.
    pub result: u64,
    /// Where the address stands to which it returns.
    pub stack: u64,
}

/// Writes what an instruction needs that begins such a function, or may return from one.
pub(crate) fn insert<S: Sink>(sink: &S, site: &Site<'_>, insert: &mut Inserter<'_, '_>) {
    if let Some(followed) = sink.followed(site.ip()) {
        begin(insert, followed);
    }
    if matches!(site.flow(), Flow::Return(_)) && sink.may_return(site.ip()) {
        end(insert);
    }
}

fn begin(insert: &mut Inserter<'_, '_>, followed: Followed) {
    let wanted = &REGISTERS[..usize::from(followed.arguments)];
    let register = scratch_apart(insert, wanted);
    insert.no_flags_are_read();
    let code = insert.code();
    code.load(register, Operand::at(Gpr::RSP, 0));
    code.compare(register, tool(word::LIBRARY));
    let outside = code.jump_if(Condition::Below);
    code.compare(register, tool(word::LIBRARY_END));
    let within = code.jump_if(Condition::Below);
    code.bind(outside);
    code.compare_with_zero(tool(word::RETURNS));
    insert.aside(Condition::NotEqual, |aside| aside.routine(Routine::Left.number(), register));
    let code = insert.code();
    for (number, &argument) in wanted.iter().enumerate() {
        code.store(tool(word::ARGUMENTS + number), argument);
    }
    if let Some(list) = followed.list.and_then(|list| wanted.get(usize::from(list))) {
        for part in 0..2 {
            code.load(register, Operand::at(*list, part * 8));
            code.store(tool(word::LIST + part as usize), register);
        }
    }
    let floating = if followed.floating { FLOATING } else { 0 };
    code.store_immediate(tool(word::FUNCTION), followed.number | floating);
    code.store(tool(word::RETURNS), Gpr::RSP);
    code.bind(within);
    insert.give_back(register);
}

fn end(insert: &mut Inserter<'_, '_>) {
    insert.read(Gpr::RAX);
    let link = insert.scratch().expect("the first of four registers");
    insert.no_flags_are_read();
    insert.code().compare(Gpr::RSP, tool(word::RETURNS));
    insert.aside(Condition::Equal, |aside| aside.routine(Routine::Returned.number(), link));
    insert.give_back(link);
}

/// A register that is none of these, though the function may not read them.
fn scratch_apart(insert: &mut Inserter<'_, '_>, others: &[Gpr]) -> Gpr {
    let mut held = [None; ARGUMENTS];
    for place in &mut held {
        let register = insert.scratch().expect("registers that cost nothing, and one of four");
        if !others.contains(&register) {
            held.into_iter().flatten().for_each(|register| insert.give_back(register));
            return register;
        }
        *place = Some(register);
    }
    unreachable!("six registers are all that there are")
}

/// Where the library is from whose code no call is followed.
pub(crate) fn attach(memory: &mut ToolMemory<'_>, library: &Range<u64>) {
    memory.set_word(word::LIBRARY, library.start);
    memory.set_word(word::LIBRARY_END, library.end);
}

/// The function returns that was followed. Only where accesses count one by one are all registers the program's.
pub(crate) fn returned<S: Sink>(accesses: &Accesses<'_, S>, visit: &mut Visit<'_>) {
    let context = *visit.context();
    let memory = visit.memory();
    let call = Returned {
        number: number(memory),
        arguments: core::array::from_fn(|number| memory.word(word::ARGUMENTS + number)),
        list: [memory.word(word::LIST), memory.word(word::LIST + 1)],
        result: context.general[RAX],
        stack: context.general[RSP],
    };
    memory.set_word(word::RETURNS, 0);
    let mut segment = Segment { accesses, memory, stored: Stored::Unknown };
    accesses.sink.returned(&call, &mut |range, kind| {
        // It stands there by now.
        segment.stored = if kind == Kind::Write { Stored::Copied(range.start) } else { Stored::Unknown };
        segment.touch(&context, range.start, range.end.wrapping_sub(range.start), kind);
    });
}

fn number(memory: &ToolMemory<'_>) -> u32 {
    memory.word(word::FUNCTION) as u32 & !FLOATING
}

/// Another call begins before the one returned that was followed.
pub(crate) fn left<S: Sink>(accesses: &Accesses<'_, S>, visit: &mut Visit<'_>) {
    let stack = visit.context().general[RSP];
    let memory = visit.memory();
    // By a tail call the one is the other.
    if memory.word(word::RETURNS) != stack {
        accesses.sink.left(number(memory));
    }
}
