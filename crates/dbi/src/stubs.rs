//! Routines at the beginning of the cache that all blocks share, and the sequence
//! that each indirect branch begins with.
//!
//! An indirect branch has its target in rcx and looks it up in [`crate::lookup`]:
//!
//! ```text
//! branch:  mov gs:[rcx word], rcx       found:  mov rcx, gs:[rcx word]
//!          mov rcx, target                      mov r10, gs:[r10 word]
//!          mov gs:[r10 word], r10               jmp [r11 + 8]
//!          mov gs:[r11 word], r11
//!          movzx r11d, cx               entry:  mov r11, gs:[r11 word]
//!          lea r11d, [r11 + r11]        body:   …
//!          mov r10, table
//!          lea r11, [r10 + r11*8]
//!          mov r10, [r11]
//!          lea rcx, [rcx + r10 + 1]
//!          jrcxz found
//!          jmp miss
//! ```
//!
//! No instruction of it touches a flag or the stack. What goes through memory comes back
//! late, so the registers are those that hold nothing at most calls and returns: r10 and
//! r11, and rcx for `jrcxz`. A block restores r11 in front of
//! its body, because the jump needs it to the last; direct branches begin behind that.
//! The first comparison stands at each branch of its own, so that the processor
//! predicts each by itself.

use crate::area::{Area, Context, EXIT, LEAVE, LOOKUP_R10, LOOKUP_R11, LOOKUP_RCX, TARGET};
use crate::arena::Array;
use crate::assembler::{Assembler, Forward, Operand};
use crate::lookup::{FURTHER_PROBES, PROBES, SLOT_BYTES};
use crate::register::Gpr;
use crate::routine::{RoutineWriter, Routines};
use crate::state::{Mark, R10, R11, RCX, State};
use crate::tool::Tool;
use crate::writer::Writer;

/// The exit that stands for an indirect branch whose target the table does not have.
pub(crate) const INDIRECT: u32 = u32::MAX;

const RCX_WORD: Operand = Operand::area(LOOKUP_RCX);
const R10_WORD: Operand = Operand::area(LOOKUP_R10);
const R11_WORD: Operand = Operand::area(LOOKUP_R11);

/// Where the routines are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stubs {
    /// The slot that was chosen is another address's.
    pub(crate) miss: u64,
    /// The slot's block is gone.
    pub(crate) stale: u64,
    /// A `ret` of native code that comes back into the cache.
    pub(crate) resume: u64,
    /// Behind the routines.
    pub(crate) end: u64,
    /// Those of the tool, which come next.
    pub(crate) routines: Routines,
    /// Where each stage of finding the target begins, in the order of the code.
    stages: [(u64, Stage); STAGES],
}

const STAGES: usize = 9;

/// Where the target of an indirect branch is while a routine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// r11 points to its slot.
    Slot,
    /// r11 is the inverted target.
    Inverted,
    /// r11 is the target.
    R11,
    /// rcx is the target plus r10, plus one.
    Difference,
    /// rcx is the target minus r10.
    Sum,
    /// rcx is the target.
    Rcx,
    /// It is in the area.
    Known,
    /// It is still on the stack of the program.
    Stack,
}

impl Stubs {
    /// Those of a cache that has none yet.
    pub(crate) const NONE: Self =
        Self { miss: 0, stale: 0, resume: 0, end: 0, routines: Routines::NONE, stages: [(0, Stage::Slot); STAGES] };

    /// Writes the routines for a table whose parts are at `tables`, and the tool's.
    pub(crate) fn write(
        code: Assembler<'_>,
        marks: &mut Array<Mark>,
        tables: [u64; 2],
        tool: &impl Tool,
    ) -> Option<Self> {
        let [table, further] = tables;
        let mut w = Writer::new(code, marks);
        let mut stages = Stages { list: [(0, Stage::Slot); STAGES], count: 0 };
        let stale = w.code.here();
        stages.begin(&w.code, Stage::Slot);
        w.code.load(Gpr::R11, Operand::at(Gpr::R11, 0));
        stages.begin(&w.code, Stage::Inverted);
        w.code.not(Gpr::R11);
        stages.begin(&w.code, Stage::R11);
        w.code.store(Operand::area(TARGET), Gpr::R11);
        stages.begin(&w.code, Stage::Known);
        w.code.load(Gpr::R11, R11_WORD);
        ask(&mut w.code);
        let miss = w.code.here();
        look_further(&mut w.code, &mut stages, further);
        w.code.align(16, 0);
        let resume = w.code.here();
        stages.begin(&w.code, Stage::Stack);
        take_return(&mut w, 0);
        branch(&mut w, table, miss);
        let end = w.code.here();
        let mut of_tool = RoutineWriter::new(&mut w.code);
        tool.routines(&mut of_tool);
        let routines = of_tool.finish();
        let whole = !w.code.is_full() && !w.is_data_full();
        whole.then_some(Self { miss, stale, resume, end, routines, stages: stages.list })
    }

    /// Makes `context`, as the processor has it at its `ip` in a routine, what the program has: at the target, or at the
    /// `ret` of native code that [`Self::resume`] stands for. `false` if it is in none of them.
    pub(crate) fn restore(&self, context: &mut Context, area: &Area, marks: &[Mark]) -> bool {
        let pc = context.ip;
        if !(self.stale..self.end).contains(&pc) {
            return false;
        }
        let [rcx, r10, r11] = [Gpr::RCX, Gpr::R10, Gpr::R11].map(|r| context.general[usize::from(r.number())]);
        let stage = self.stages.iter().rev().find(|(begin, _)| *begin <= pc).map_or(Stage::Slot, |(_, stage)| *stage);
        let mut state = State::EXACT;
        state.lookup = RCX | R10 | R11;
        context.ip = match stage {
            // SAFETY: emitted code is about to load from this slot of the table itself.
            Stage::Slot => !unsafe { (r11 as *const u64).read_volatile() },
            Stage::Inverted => !r11,
            Stage::R11 => r11,
            Stage::Difference => rcx.wrapping_sub(r10).wrapping_sub(1),
            Stage::Sum => rcx.wrapping_add(r10),
            Stage::Rcx => rcx,
            Stage::Known => area.target,
            Stage::Stack => {
                let offset = pc - self.stale;
                let mark = marks.iter().rev().find(|m| u64::from(m.offset) <= offset);
                state = mark.map_or(State::EXACT, |m| m.state);
                self.resume
            }
        };
        state.restore(context, area);
        true
    }
}

struct Stages {
    list: [(u64, Stage); STAGES],
    count: usize,
}

impl Stages {
    fn begin(&mut self, code: &Assembler<'_>, stage: Stage) {
        self.list[self.count] = (code.here(), stage);
        self.count += 1;
    }
}

/// The routine for a slot of another address: looks at the slots behind it, then in the further part, then asks the
/// dispatcher.
fn look_further(code: &mut Assembler<'_>, stages: &mut Stages, further: u64) {
    stages.begin(code, Stage::Difference);
    code.not(Gpr::R10);
    stages.begin(code, Stage::Sum);
    code.lea(Gpr::RCX, Operand::indexed(Some(Gpr::RCX), Gpr::R10, 1, 0));
    stages.begin(code, Stage::Rcx);
    code.store(Operand::area(TARGET), Gpr::RCX);
    stages.begin(code, Stage::Known);
    code.copy(Gpr::R10, Gpr::RCX);
    let near: [Option<Forward>; PROBES] = probe(code, 1);
    // Slots that were never used look like that address.
    code.lea(Gpr::RCX, Operand::at(Gpr::R10, 1));
    let nowhere = code.jump_if_rcx_zero();
    let goes_on = code.jump_short();
    code.bind(nowhere);
    let nowhere = code.jump();
    code.bind(goes_on);
    // Byte by byte: the program may want to be told of what is not aligned.
    code.load_byte(Gpr::R11, Operand::area(TARGET + 2));
    code.load_byte(Gpr::RCX, Operand::area(TARGET + 1));
    for _ in 0..2 {
        code.lea(Gpr::R11, Operand::indexed(None, Gpr::R11, 8, 0));
    }
    code.lea(Gpr::R11, Operand::indexed(Some(Gpr::RCX), Gpr::R11, 4, 0));
    for _ in 0..2 {
        code.lea(Gpr::R11, Operand::indexed(None, Gpr::R11, 8, 0));
    }
    code.constant(Gpr::RCX, further);
    code.lea(Gpr::R11, Operand::indexed(Some(Gpr::RCX), Gpr::R11, (FURTHER_PROBES * SLOT_BYTES / 64) as u8, 0));
    let far: [Option<Forward>; FURTHER_PROBES] = probe(code, 0);
    code.bind(nowhere);
    for (register, word) in [(Gpr::RCX, RCX_WORD), (Gpr::R10, R10_WORD), (Gpr::R11, R11_WORD)] {
        code.load(register, word);
    }
    ask(code);
    leave_by(code, near);
    leave_by(code, far);
}

/// Compares the target, in r10, with the slots at r11 from number `first` on. Branches where one is its.
fn probe<const N: usize>(code: &mut Assembler<'_>, first: usize) -> [Option<Forward>; N] {
    let mut found: [Option<Forward>; N] = [const { None }; N];
    for (number, found) in found.iter_mut().enumerate().skip(first) {
        code.load(Gpr::RCX, Operand::at(Gpr::R11, (number * SLOT_BYTES) as i32));
        code.lea(Gpr::RCX, Operand::indexed(Some(Gpr::RCX), Gpr::R10, 1, 1));
        let next = code.jump_if_rcx_zero();
        let other = code.jump_short();
        code.bind(next);
        *found = Some(code.jump());
        code.bind(other);
    }
    found
}

/// Goes where the slot leads that was found.
fn leave_by<const N: usize>(code: &mut Assembler<'_>, found: [Option<Forward>; N]) {
    for (number, found) in found.into_iter().enumerate() {
        let Some(found) = found else { continue };
        code.bind(found);
        code.lea(Gpr::R11, Operand::at(Gpr::R11, (number * SLOT_BYTES) as i32));
        go(code);
    }
}

/// Leaves the cache, the target being in the area.
fn ask(code: &mut Assembler<'_>) {
    code.store_immediate(Operand::area(EXIT), INDIRECT);
    code.jump_through(Operand::area(LEAVE));
}

/// Goes where the slot at r11 leads.
fn go(code: &mut Assembler<'_>) {
    code.load(Gpr::RCX, RCX_WORD);
    code.load(Gpr::R10, R10_WORD);
    code.jump_through(Operand::at(Gpr::R11, 8));
}

/// Frees rcx for a target.
pub(crate) fn free_rcx(w: &mut Writer<'_>) {
    w.code.store(RCX_WORD, Gpr::RCX);
    w.state.lookup = RCX;
    w.mark();
}

/// Takes a return address and `drop` further bytes off the stack.
pub(crate) fn take_return(w: &mut Writer<'_>, drop: u16) {
    free_rcx(w);
    w.code.pop(Gpr::RCX);
    w.state.stack -= 8;
    w.mark();
    if drop > 0 {
        w.code.lea(Gpr::RSP, Operand::at(Gpr::RSP, i32::from(drop)));
        w.state.stack -= i32::from(drop);
        w.mark();
    }
}

/// Goes to the program's address in rcx, whose own value is put away already.
pub(crate) fn branch(w: &mut Writer<'_>, table: u64, miss: u64) {
    w.code.store(R10_WORD, Gpr::R10);
    w.code.store(R11_WORD, Gpr::R11);
    w.state.lookup = RCX | R10 | R11;
    w.mark();
    w.code.low_word(Gpr::R11, Gpr::RCX);
    w.code.lea_short(Gpr::R11, Operand::indexed(Some(Gpr::R11), Gpr::R11, 1, 0));
    w.code.constant(Gpr::R10, table);
    w.code.lea(Gpr::R11, Operand::indexed(Some(Gpr::R10), Gpr::R11, 8, 0));
    w.code.load(Gpr::R10, Operand::at(Gpr::R11, 0));
    w.code.lea(Gpr::RCX, Operand::indexed(Some(Gpr::RCX), Gpr::R10, 1, 1));
    let found = w.code.jump_if_rcx_zero();
    w.code.jump_to(miss);
    w.code.bind(found);
    go(&mut w.code);
}

/// What a block that indirect branches reach begins with.
pub(crate) fn entry(w: &mut Writer<'_>) {
    w.state.lookup = R11;
    w.at_instruction(0);
    w.code.load(Gpr::R11, R11_WORD);
    w.state.lookup = 0;
    w.mark();
}
