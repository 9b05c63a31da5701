//! Writes a tool's code before one instruction, with registers and flags that it
//! borrows from the program.
//!
//! What is borrowed goes back as late as may be: a register when an instruction of the
//! block uses it or the block is left, the flags when an instruction reads or changes
//! some. So a tool that wants registers at each instruction of a loop takes them from
//! those that the loop leaves alone, and pays for that once a round.

use crate::area::SPILLS;
use crate::assembler::{Assembler, Condition, Operand};
use crate::cold::Aside;
use crate::liveness::{Live, Liveness};
use crate::place::Place;
use crate::register::{Gpr, GprSet};
use crate::tool::Access;
use crate::writer::Writer;

/// Inserts code before one instruction.
pub struct Inserter<'w, 'a> {
    writer: &'w mut Writer<'a>,
    liveness: &'w Liveness,
    index: usize,
    live: Live,
    /// What the instruction uses, and the registers of its addresses among it.
    used: GprSet,
    lent: GprSet,
    visits: bool,
}

impl<'w, 'a> Inserter<'w, 'a> {
    /// Before the instruction `index`.
    pub(crate) fn new(writer: &'w mut Writer<'a>, liveness: &'w Liveness, index: usize) -> Self {
        let (live, used) = (liveness.before(index), liveness.effect(index).used);
        writer.bring_back(GprSet::ALL.minus(live.registers), false);
        writer.bring_back(used, true);
        if live.flags == 0 && writer.state.flags {
            writer.drop_flags();
        }
        Self { writer, liveness, index, live, used, lent: GprSet::NONE, visits: false }
    }

    /// Registers that cost nothing to lend.
    fn free(&self) -> GprSet {
        GprSet::ALL.minus(self.live.registers).union(self.writer.spilled()).minus(self.lent).without(Gpr::RSP)
    }

    /// A register for the inserted code alone, never rsp. `None` beyond four that had to be saved.
    pub fn scratch(&mut self) -> Option<Gpr> {
        if let Some(register) = self.scratch_for_nothing() {
            return Some(register);
        }
        let others = GprSet::ALL.minus(self.used).minus(self.lent).without(Gpr::RSP);
        let others = (0..16).map(Gpr::numbered).filter(|&r| others.contains(r));
        let register = self.liveness.idle_longest(self.index, others)?;
        if !self.writer.spill(register) {
            return None;
        }
        self.lent = self.lent.with(register);
        Some(register)
    }

    /// As [`Self::scratch`], but only a register that need not be saved first.
    pub fn scratch_for_nothing(&mut self) -> Option<Gpr> {
        let free = self.free();
        let register = (0..16).map(Gpr::numbered).find(|&r| free.contains(r))?;
        self.lent = self.lent.with(register);
        Some(register)
    }

    /// Takes a register back from the inserted code, which no longer uses it.
    pub fn give_back(&mut self, register: Gpr) {
        self.lent = self.lent.without(register);
    }

    /// Lets the inserted code change the arithmetic flags from here on.
    pub fn clobber_flags(&mut self) {
        if self.live.flags != 0 && !self.writer.state.flags {
            let rax_is_free = self.free().contains(Gpr::RAX);
            self.writer.save_flags(rax_is_free);
        }
    }

    /// Lets the inserted code read what the program has in `register`, which is not lent.
    pub fn read(&mut self, register: Gpr) {
        self.writer.bring_back(GprSet::NONE.with(register), true);
        self.used = self.used.with(register);
    }

    /// The program reads no flags before it changes them: here a function begins or returns (System V ABI, 3.2.1). So the
    /// inserted code may change them.
    pub fn no_flags_are_read(&mut self) {
        self.live.flags = 0;
    }

    /// Writes code that puts the address of `access` into `into`, a register from [`Self::scratch`]. Flags stay.
    /// `false`, and no code, for a scattered access.
    pub fn address(&mut self, access: &Access<'_>, into: Gpr) -> bool {
        let place = if access.scattered { None } else { Place::of(access, 0) };
        place.is_some_and(|place| self.write_place(&place, into))
    }

    /// As [`Self::address`] without the index, which may be a vector of them.
    pub fn address_unindexed(&mut self, access: &Access<'_>, into: Gpr) -> bool {
        Place::unindexed(access).is_some_and(|place| self.write_place(&place, into))
    }

    /// Writes code that puts the address into `into`, with another register for a moment if that is [`Place::of_fs`].
    /// Flags stay. `false` if there is none.
    pub fn write_place(&mut self, place: &Place, into: Gpr) -> bool {
        place.write_offset(&mut self.writer.code, into);
        !place.of_fs() || self.add_fs(into)
    }

    /// libc keeps the base of fs at its beginning (x86-64 ABI, 11.2 of the TLS supplement).
    fn add_fs(&mut self, into: Gpr) -> bool {
        let Some(base) = self.scratch() else { return false };
        // mov base, fs:[0]
        let rex = 0x48 | base.number() >> 3 << 2;
        self.writer.code.bytes(&[0x64, rex, 0x8B, 4 | (base.number() & 7) << 3, 0x25, 0, 0, 0, 0]);
        self.writer.code.lea(into, Operand::indexed(Some(into), base, 1, 0));
        self.give_back(base);
        true
    }

    /// The writer of code. It may change registers from [`Self::scratch`], flags after [`Self::clobber_flags`], and
    /// memory that is the tool's; not the stack, and not below rsp. It ends where it comes to its end: it may branch
    /// forward only.
    pub fn code(&mut self) -> &mut Assembler<'a> {
        &mut self.writer.code
    }

    /// Branches, on a condition, to code that is seldom needed; it goes on behind the branch. It may only branch within
    /// itself; for the rest it is bound as [`Self::code`] is. Registers and flags must have been lent before.
    pub fn seldom(&mut self, condition: Condition, write: impl FnOnce(&mut Assembler<'_>)) {
        self.aside(condition, |aside| aside.write(write));
    }

    /// As [`Self::seldom`], for code that may also go to the tool's routines.
    pub fn aside(&mut self, condition: Condition, write: impl FnOnce(&mut Aside)) {
        self.writer.branch_to_cold(condition, write);
    }

    /// Behind the inserted code, each time, the thread saves everything and calls [`Tool::visit`](crate::Tool::visit)
    /// before the instruction runs. For instructions that just go on to the next one.
    pub fn visit(&mut self) {
        self.visits = true;
    }

    /// Puts back what the instruction needs; all of it if `leaves`, because the program leaves the block by it, and the
    /// flags in any case if it `branches`. Whether a visit was asked for.
    pub(crate) fn finish(self, leaves: bool, branches: bool) -> bool {
        let leaves = leaves || self.visits;
        if self.writer.state.flags && (leaves || branches || self.liveness.effect(self.index).flags) {
            let dead = GprSet::ALL.minus(self.live.registers);
            let rax_is_free = dead.union(self.writer.spilled()).contains(Gpr::RAX);
            self.writer.restore_flags(rax_is_free);
        }
        if leaves {
            self.writer.bring_back(GprSet::ALL, true);
        }
        self.visits
    }
}

const _: () = assert!(SPILLS >= 4, "what `scratch` promises");
