//! Which checks of a block are needed.
//!
//! Within a block a check says something about all later accesses by the same address
//! expression, as long as none of its registers changes. So accesses that lie within a
//! few dozen bytes of each other become a group, with one check at the first of them,
//! as long as nothing can leave the block in between; and what an earlier check covers
//! needs none at all. An access may so be noted a few instructions before it happens:
//! within the same segment, because a segment ends in a call or a trap. Where a signal
//! strikes in between, it is noted twice; where another instruction faults, it may be
//! noted for nothing.
//!
//! Reads and writes of a group have bits of their own, counted from its lowest byte.

use crate::classify::{Piece, pieces};
use crate::layout::ones;
use crate::what::Kind;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use relive_dbi::{Flow, Gpr, GprSet, Note, Site, Survey};

/// Groups that can be remembered at a time.
const OPEN: usize = 16;
/// Bytes from the first of a group to its last: with the bits before the first byte of the shadow, a word has no more.
pub(crate) const GROUP_BYTES: u64 = 57;

/// What becomes of the accesses of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    /// Those that need no check of their own, as bits.
    skipped: u8,
    /// The access, counted from 1, at which its group is checked.
    leader: u8,
    /// From the leader's own address to the group's lowest byte.
    pub(crate) offset: i32,
    pub(crate) read: u64,
    pub(crate) written: u64,
}

impl Decision {
    pub(crate) fn of(note: Note) -> Self {
        let [first, offset, read, written] = note;
        Self { skipped: first as u8, leader: (first >> 8) as u8, offset: offset as i32, read, written }
    }

    fn note(self) -> Note {
        [u64::from(self.skipped) | u64::from(self.leader) << 8, self.offset as u64, self.read, self.written]
    }

    pub(crate) fn skips(&self, number: usize) -> bool {
        self.skipped >> number & 1 != 0
    }

    pub(crate) fn is_led_by(&self, number: usize) -> bool {
        usize::from(self.leader) == number + 1
    }
}

/// An address expression without its displacement.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Expression {
    base: Register,
    index: Register,
    scale: u32,
    of_fs: bool,
}

impl Expression {
    fn of(piece: &Piece<'_>) -> Self {
        let memory = piece.access.memory();
        Self {
            base: memory.base(),
            index: memory.index(),
            scale: memory.scale(),
            of_fs: memory.segment() == Register::FS,
        }
    }

    fn changes_with(self, changed: GprSet) -> bool {
        [self.base, self.index].into_iter().filter_map(Gpr::containing).any(|register| changed.contains(register))
    }
}

/// Accesses by one expression.
#[derive(Clone, Copy)]
struct Group {
    expression: Expression,
    /// The displacement of its lowest byte.
    begin: u64,
    read: u64,
    written: u64,
    /// The instruction at which it is checked, the access of it, and that one's displacement.
    site: (usize, usize, u64),
    /// Nothing could have left the block since.
    open: bool,
}

impl Group {
    /// The group with `bytes` more from the displacement `begin` on. `None` if it cannot have them.
    fn with(&self, begin: u64, bytes: u64, writes: bool) -> Option<Self> {
        let lowest = if (begin.wrapping_sub(self.begin) as i64) < 0 { begin } else { self.begin };
        let (ours, theirs) = (self.begin.wrapping_sub(lowest), begin.wrapping_sub(lowest));
        let span = |mask: u64| u64::from(64 - mask.leading_zeros());
        if ours.saturating_add(span(self.read | self.written)).max(theirs.saturating_add(bytes)) > GROUP_BYTES {
            return None;
        }
        let new = ones(bytes as u32) << theirs;
        let (read, written) = if writes { (0, new) } else { (new, 0) };
        let (read, written) = (self.read << ours | read, self.written << ours | written);
        Some(Self { begin: lowest, read: read & !written, written, ..*self })
    }

    /// The register was increased: the same bytes have other displacements.
    fn follow(&mut self, register: Register, by: u64) {
        let Expression { base, index, scale, .. } = self.expression;
        for times in [(base == register).then_some(1), (index == register).then_some(scale)].into_iter().flatten() {
            let distance = by.wrapping_mul(u64::from(times));
            self.begin = self.begin.wrapping_sub(distance);
            self.site.2 = self.site.2.wrapping_sub(distance);
        }
    }

    fn decision(&self) -> Decision {
        let (_, number, displacement) = self.site;
        let offset = self.begin.wrapping_sub(displacement) as i32;
        Decision { skipped: 0, leader: number as u8 + 1, offset, read: self.read, written: self.written }
    }
}

struct Plan {
    groups: [Option<Group>; OPEN],
    next: usize,
    decisions: [Decision; 64],
}

impl Plan {
    fn decide(&mut self, site: usize, number: usize, piece: &Piece<'_>, bytes: u64) {
        let (expression, begin) = (Expression::of(piece), piece.access.memory().displacement());
        let writes = piece.what.kind == Kind::Write;
        for group in self.groups.iter_mut().flatten().filter(|group| group.expression == expression) {
            let Some(larger) = group.with(begin, bytes, writes) else { continue };
            let covered = (larger.read, larger.written) == (group.read, group.written);
            if covered || group.open {
                *group = larger;
                let leader = &mut self.decisions[group.site.0];
                *leader = Decision { skipped: leader.skipped, ..larger.decision() };
                self.decisions[site].skipped |= 1 << number;
                return;
            }
        }
        // One access of an instruction can lead.
        if self.decisions[site].leader != 0 {
            return;
        }
        let bits = ones(bytes as u32);
        let (read, written) = if writes { (0, bits) } else { (bits, 0) };
        let group = Group { expression, begin, read, written, site: (site, number, begin), open: true };
        let skipped = self.decisions[site].skipped;
        self.decisions[site] = Decision { skipped, ..group.decision() };
        self.groups[self.next % OPEN] = Some(group);
        self.next += 1;
    }

    fn forget(&mut self, which: impl Fn(&Group) -> bool) {
        for group in &mut self.groups {
            *group = group.filter(|group| !which(group));
        }
    }

    fn look(&mut self, index: usize, site: &Site<'_>, changed: GprSet) {
        for (number, piece) in pieces(site).enumerate().take(8) {
            let bytes = piece.plain_bytes().filter(|&bytes| u64::from(bytes) <= GROUP_BYTES);
            if let Some(bytes) = bytes.filter(|_| piece.what.kind != Kind::Locked) {
                self.decide(index, number, &piece, u64::from(bytes));
            }
        }
        if let Some((register, by)) = step(site.instruction()) {
            self.groups.iter_mut().flatten().for_each(|group| group.follow(register, by));
        } else {
            self.forget(|group| group.expression.changes_with(changed));
        }
        match site.flow() {
            Flow::Next => {}
            Flow::Conditional(_) | Flow::Counted(_) => {
                self.groups.iter_mut().flatten().for_each(|group| group.open = false);
            }
            _ => self.forget(|_| true),
        }
    }
}

/// The register of 64 bits that the instruction increases by a number, if that is all that it does to registers.
fn step(instruction: &Instruction) -> Option<(Register, u64)> {
    let register = instruction.op0_register();
    let of_registers = instruction.op0_kind() == OpKind::Register && register.is_gpr64();
    let number = || instruction.try_immediate(1).ok();
    Some(match instruction.mnemonic() {
        Mnemonic::Push => (Register::RSP, instruction.stack_pointer_increment() as i64 as u64),
        Mnemonic::Add if of_registers => (register, number()?),
        Mnemonic::Sub if of_registers => (register, number()?.wrapping_neg()),
        Mnemonic::Inc if of_registers => (register, 1),
        Mnemonic::Dec if of_registers => (register, u64::MAX),
        Mnemonic::Lea if of_registers && instruction.memory_base() == register => {
            let plain = instruction.memory_index() == Register::None && !instruction.is_ip_rel_memory_operand();
            plain.then(|| (register, instruction.memory_displacement64()))?
        }
        _ => return None,
    })
}

/// Decides for a block, and leaves the decisions as notes.
pub(crate) fn survey(survey: &mut Survey<'_>, observes: impl Fn(u64) -> bool) {
    let mut plan = Plan { groups: [None; OPEN], next: 0, decisions: [Decision::default(); 64] };
    let count = survey.count();
    for index in 0..count {
        survey.look(index, |site, changed| {
            if observes(site.ip()) {
                plan.look(index, site, changed);
            } else {
                plan.forget(|_| true);
            }
        });
    }
    for (index, decision) in plan.decisions.into_iter().enumerate().take(count) {
        survey.note(index, decision.note());
    }
}
