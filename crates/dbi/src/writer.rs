//! Writes a block's code together with the marks that say where registers are.
//!
//! Apart from the assembler, which knows nothing of the program whose code this is,
//! so that whatever is saved or restored through the writer is marked as well.

use crate::area::{FLAGS, FLAGS_RAX, SPILL};
use crate::arena::Array;
use crate::assembler::{Assembler, Condition, Operand};
use crate::cold::{Aside, Cold, Origin};
use crate::register::{Gpr, GprSet};
use crate::state::{Mark, State};

pub(crate) struct Writer<'a> {
    pub(crate) code: Assembler<'a>,
    marks: &'a mut Array<Mark>,
    first: usize,
    ip: u16,
    pub(crate) state: State,
    data_full: bool,
    /// Where rare parts go until the body is whole.
    cold: Option<&'a mut Cold>,
    /// The tool's routines.
    routines: &'a [u64],
}

impl<'a> Writer<'a> {
    pub(crate) fn new(code: Assembler<'a>, marks: &'a mut Array<Mark>) -> Self {
        let first = marks.len();
        Self { code, marks, first, ip: 0, state: State::EXACT, data_full: false, cold: None, routines: &[] }
    }

    /// A writer of code that has rare parts, and may go to a tool's routines.
    pub(crate) fn of_block(
        code: Assembler<'a>,
        marks: &'a mut Array<Mark>,
        cold: &'a mut Cold,
        routines: &'a [u64],
    ) -> Self {
        Self { cold: Some(cold), routines, ..Self::new(code, marks) }
    }

    /// Marks written for this block.
    pub(crate) fn mark_count(&self) -> usize {
        self.marks.len() - self.first
    }

    /// Whether a mark did not fit.
    pub(crate) fn is_data_full(&self) -> bool {
        self.data_full
    }

    /// The program is before the instruction that stands `ip` bytes behind the block's beginning.
    pub(crate) fn at_instruction(&mut self, ip: u16) {
        self.ip = ip;
        self.mark();
    }

    /// Notes the state from here on.
    pub(crate) fn mark(&mut self) {
        let mark = Mark { offset: self.code.offset() as u16, ip: self.ip, state: self.state };
        match self.marks[self.first..].last_mut() {
            Some(last) if last.offset == mark.offset => *last = mark,
            _ => self.data_full |= self.marks.push(mark).is_err(),
        }
    }

    /// The code that comes has done the instruction and goes to the block's exit `exit`.
    pub(crate) fn mark_exit(&mut self, exit: u16) {
        let (ip, state) = (self.ip, self.state);
        (self.ip, self.state.exit) = (exit, true);
        self.mark();
        (self.ip, self.state) = (ip, state);
    }

    /// Branches to what `write` writes, which stands behind the body and comes back here; without room there, here.
    pub(crate) fn branch_to_cold(&mut self, condition: Condition, write: impl FnOnce(&mut Aside)) {
        let mut aside = Aside::new();
        write(&mut aside);
        let Some(part) = aside.finish() else { return self.code.overflow() };
        let origin = Origin { from: self.code.offset() as u32 + 6, ip: self.ip, state: self.state };
        if self.cold.as_mut().is_some_and(|cold| cold.keep(&part, origin)) {
            self.code.bytes(&[0x0F, 0x80 | condition as u8, 0, 0, 0, 0]);
        } else {
            let over = self.code.jump_if(condition.inverse());
            let back = self.code.offset() + part.length();
            part.place(&mut self.code, back, self.routines);
            self.code.bind(over);
        }
    }

    /// Writes what stands aside behind the body.
    pub(crate) fn place_cold(&mut self) {
        let Some(cold) = self.cold.take() else { return };
        for (origin, part) in cold.parts() {
            // Offsets mean nothing once something did not fit.
            if self.code.is_full() {
                return;
            }
            let from = origin.from as usize;
            (self.ip, self.state) = (origin.ip, origin.state);
            self.mark();
            self.code.patch(from - 4, (self.code.offset() - from) as i32);
            part.place(&mut self.code, from, self.routines);
        }
    }

    /// Puts the program's value of `register` away. `false` if there is no word left.
    pub(crate) fn spill(&mut self, register: Gpr) -> bool {
        let Some(word) = self.state.free_word() else { return false };
        self.code.store(Operand::area(SPILL + word * 8), register);
        self.state.set_spilled(word, Some(register));
        self.mark();
        true
    }

    /// Brings those registers of `set` back that were spilled, or with `value` false only says that they hold nothing.
    pub(crate) fn bring_back(&mut self, set: GprSet, value: bool) {
        for (word, register) in self.state.spilled().rev().filter(|(_, register)| set.contains(*register)) {
            if value {
                self.code.load(register, Operand::area(SPILL + word * 8));
            }
            self.state.set_spilled(word, None);
            self.mark();
        }
    }

    /// Brings registers back and puts others away until they are where `other` has them.
    pub(crate) fn exchange(&mut self, other: &State) {
        let now = self.state;
        for (word, register) in now.spilled().filter(|&pair| !other.spilled().any(|place| place == pair)) {
            self.code.load(register, Operand::area(SPILL + word * 8));
            self.state.set_spilled(word, None);
            self.mark();
        }
        let now = self.state;
        for (word, register) in other.spilled().filter(|&pair| !now.spilled().any(|place| place == pair)) {
            self.code.store(Operand::area(SPILL + word * 8), register);
            self.state.set_spilled(word, Some(register));
            self.mark();
        }
    }

    /// Brings back what `state` has put away, behind the block's exit `exit`.
    pub(crate) fn bring_back_behind(&mut self, exit: u16, state: State) {
        (self.ip, self.state) = (exit, state);
        self.state.exit = true;
        self.mark();
        self.bring_back(GprSet::ALL, true);
    }

    /// Brings everything back, the flags too.
    pub(crate) fn bring_all_back(&mut self) {
        if self.state.flags {
            let rax_is_free = self.spilled().contains(Gpr::RAX);
            self.restore_flags(rax_is_free);
        }
        self.bring_back(GprSet::ALL, true);
    }

    /// The registers that are spilled.
    pub(crate) fn spilled(&self) -> GprSet {
        self.state.spilled().fold(GprSet::NONE, |set, (_, register)| set.with(register))
    }

    /// Puts the arithmetic flags away; `rax_is_free` if its value is not needed.
    pub(crate) fn save_flags(&mut self, rax_is_free: bool) {
        self.hold_rax(rax_is_free);
        self.code.flags_to_rax();
        self.code.store(Operand::area(FLAGS), Gpr::RAX);
        self.state.flags = true;
        self.mark();
        self.release_rax(rax_is_free);
    }

    /// Brings the flags back.
    pub(crate) fn restore_flags(&mut self, rax_is_free: bool) {
        self.hold_rax(rax_is_free);
        self.code.load(Gpr::RAX, Operand::area(FLAGS));
        self.code.flags_from_rax();
        self.drop_flags();
        self.release_rax(rax_is_free);
    }

    /// Nobody needs the flags that were put away.
    pub(crate) fn drop_flags(&mut self) {
        self.state.flags = false;
        self.mark();
    }

    fn hold_rax(&mut self, is_free: bool) {
        if !is_free {
            self.code.store(Operand::area(FLAGS_RAX), Gpr::RAX);
            self.state.flags_rax = true;
            self.mark();
        }
    }

    fn release_rax(&mut self, is_free: bool) {
        if !is_free {
            self.code.load(Gpr::RAX, Operand::area(FLAGS_RAX));
            self.state.flags_rax = false;
            self.mark();
        }
    }
}
