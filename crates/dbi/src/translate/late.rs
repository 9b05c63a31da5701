//! Branches that leave a block while registers are put away: those come back on the
//! way out, or, where the block is a loop, stay away for its next round.
//!
//! Apart from the body: a loop whose checks want a register would else bring it back
//! and put it away in each round, and a value that goes through memory from round to
//! round takes longer than many loops do.

use super::{Translation, Way};
use crate::decode::{Flow, INSTRUCTIONS};
use crate::host::Host;
use crate::register::GprSet;
use crate::state::State;
use crate::tool::Tool;
use iced_x86::Instruction;

/// A branch that leads to what brings registers back.
#[derive(Clone, Copy)]
struct Branch {
    /// Behind its displacement.
    end: usize,
    /// The number of its way out.
    number: u16,
    state: State,
    /// Behind the jump that follows when all is back.
    last: usize,
}

/// Those of a block.
pub(super) struct Late {
    branches: [Option<Branch>; INSTRUCTIONS],
    count: usize,
    /// What is put away where rounds begin. Nothing if the block has none of its own.
    round: State,
    /// What was put away where the block went on to its next round.
    pub(super) wanted: GprSet,
}

impl Late {
    pub(super) fn new() -> Self {
        Self { branches: [None; INSTRUCTIONS], count: 0, round: State::EXACT, wanted: GprSet::NONE }
    }

    fn has_rounds(&self) -> bool {
        self.round != State::EXACT
    }
}

impl<H: Host, T: Tool> Translation<'_, '_, H, T> {
    /// Puts away what the block's rounds want so, if that is known; where they begin.
    pub(super) fn begin_rounds(&mut self, live: GprSet) -> u32 {
        self.w.at_instruction(0);
        let kept = self.around.kept.minus(GprSet::ALL.minus(live));
        for register in kept.registers() {
            let away = self.w.spill(register);
            debug_assert!(away, "no more than were put away before");
        }
        if kept != GprSet::NONE {
            self.late.round = self.w.state;
        }
        self.w.code.offset() as u32
    }

    /// Whether what goes on so goes on to the block's next round with registers put away.
    pub(super) fn is_round(&self, flow: Flow) -> bool {
        matches!(flow, Flow::Jump(to) | Flow::Conditional(to) if to == self.block.start) && self.late.has_rounds()
    }

    /// The instruction comes next, and then the branch: nothing may stand between them.
    pub(super) fn before_branch(&mut self, instruction: &Instruction, branch: &Instruction) {
        let round = self.is_round(Flow::Conditional(branch.near_branch_target()));
        if round {
            self.prepare_round();
        }
        if round || self.w.spilled() == GprSet::NONE {
            self.w.code.align(4, instruction.len() + 2);
        }
    }

    fn prepare_round(&mut self) {
        let round = self.late.round;
        self.w.exchange(&round);
    }

    /// A jump or branch out of the block, or to its next round.
    pub(super) fn branch_out(&mut self, operation: &[u8], ip: u64, target: u64) {
        if target == self.block.start && !self.around.checked {
            self.late.wanted = self.late.wanted.union(self.w.spilled());
            if self.late.has_rounds() {
                self.prepare_round();
                return self.next_round(operation, ip, target);
            }
        }
        if self.w.spilled() == GprSet::NONE {
            return self.leave_by(operation, ip, target);
        }
        self.w.code.bytes(operation);
        self.w.code.bytes(&[0; 4]);
        let number = self.way_out(Way::Native, ip, target);
        self.note_branch(number);
    }

    fn next_round(&mut self, operation: &[u8], ip: u64, target: u64) {
        self.w.code.align(4, operation.len());
        self.w.code.bytes(operation);
        let at = self.w.code.offset() as u32;
        self.w.code.bytes(&[0; 4]);
        let number = self.way_out(Way::Round { at, parted: 0 }, ip, target);
        self.note_branch(number);
    }

    fn note_branch(&mut self, number: u16) {
        let branch = Branch { end: self.w.code.offset(), number, state: self.w.state, last: 0 };
        self.late.branches[self.late.count] = Some(branch);
        self.late.count += 1;
    }

    /// Writes what such branches lead to.
    pub(super) fn place_late(&mut self) {
        for index in 0..self.late.count {
            let Some(Branch { end, number, state, .. }) = self.late.branches[index] else { return };
            // Offsets mean nothing once something did not fit.
            if self.w.code.is_full() {
                return;
            }
            let here = self.w.code.offset();
            self.w.code.patch(end - 4, (here - end) as i32);
            self.w.bring_back_behind(number, state);
            let way = if let Way::Round { at, .. } = self.ways[usize::from(number)].way {
                // Not patched while it runs: it need not be aligned.
                self.w.code.bytes(&[0xE9, 0, 0, 0, 0]);
                Way::Round { at, parted: here as u32 }
            } else {
                self.w.code.align(4, 1);
                self.w.code.bytes(&[0xE9]);
                let at = self.w.code.offset() as u32;
                self.w.code.bytes(&[0; 4]);
                Way::Block(at)
            };
            self.ways[usize::from(number)].way = way;
            let last = self.w.code.offset();
            self.late.branches[index] = Some(Branch { end, number, state, last });
        }
    }

    /// The way to the dispatcher of the branch with this number begins at `stub`; so far it goes to what brings registers
    /// back.
    pub(super) fn end_round(&mut self, number: u16, stub: usize) {
        if let Some(branch) = self.late.branches.iter().flatten().find(|branch| branch.number == number) {
            self.w.code.patch(branch.last - 4, stub as i32 - branch.last as i32);
        }
    }
}
