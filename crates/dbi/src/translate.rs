//! Turns one block of the program into code of the cache.
//!
//! The layout of a block, from low to high addresses:
//!
//! ```text
//! entry    restores r11 for indirect branches (see stubs)
//! body     what compares the program's code, if it may change unnoticed
//!          for each instruction: what the tool inserts, then its copy
//! cold     what inserted code seldom comes to
//! late     for branches that leave with registers put away: brings those back
//! exits    for each way out: which exit it is, and a jump to the dispatcher
//! words    return addresses that calls push, and native targets
//! ```
//!
//! A way out is a jump with a displacement of 32 bits that does not cross a word of
//! four bytes, so that one store can send it to the next block while other threads
//! run it. A call pushes the program's own return address out of the words behind the
//! block: the stack always holds what the program would have put there, so that
//! backtraces, exceptions and `longjmp` find what they expect.

mod check;
mod copy;
mod late;

use crate::area::{EXIT, LEAVE, LEAVE_PLAINLY, TARGET};
use crate::arena::Array;
use crate::assembler::{Assembler, Operand};
use crate::cold::Cold;
use crate::crossing::border::native_call;
use crate::decode::{Block, Flow, INSTRUCTIONS};
use crate::error::Error;
use crate::host::Host;
use crate::inserter::Inserter;
use crate::liveness::Liveness;
use crate::process::SYSCALL_BYTES;
use crate::register::{Gpr, GprSet};
use crate::state::Mark;
use crate::stubs::{self, Stubs};
use crate::tool::{Note, Site, Survey, Tool, Treatment};
use crate::writer::Writer;
use iced_x86::InstructionInfoFactory;
use late::Late;

/// Each instruction may be handed over and then leave the block; its beginning and its end leave as well.
pub(crate) const WAYS: usize = 2 * INSTRUCTIONS + 2;
/// Why a translated block cannot be larger: marks count in 16 bits.
pub(crate) const BLOCK_BYTES: usize = 1 << 16;

/// What a block is translated with.
pub(crate) struct Surroundings<'a, H, T> {
    pub(crate) host: &'a H,
    pub(crate) tool: &'a T,
    pub(crate) stubs: Stubs,
    /// The table of indirect branches.
    pub(crate) table: u64,
    /// The number that the first exit will have.
    pub(crate) first_exit: u32,
    /// Whether the whole process is translated, so that its system calls are looked at.
    pub(crate) whole: bool,
    /// Whether the block is to look before it runs whether its code is still the same.
    pub(crate) checked: bool,
    /// Registers that are put away all along if the block is a loop; none if that is not known yet.
    pub(crate) kept: GprSet,
}

/// How a way out leads on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// To another block, by the jump whose displacement stands at this offset.
    Block(u32),
    /// To this block's own next round, with registers put away, by the jump whose displacement stands at `at`; what
    /// brings them back on the way to the dispatcher is at `parted`.
    Round { at: u32, parted: u32 },
    /// To native code.
    Native,
    /// To the host, which may come back at this offset.
    Event(u32),
    /// To the tool, which comes back at this offset.
    Visit(u32),
    /// To what makes system calls for a whole process, which may come back at this offset, to the instruction itself.
    SystemCall(u32),
    /// To what translates the block anew; the jump ends at this offset, where some registers are put away.
    Changed(u32),
}

/// One way out of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WayOut {
    pub(crate) way: Way,
    /// The instruction that leaves.
    pub(crate) ip: u64,
    /// Where the program goes on.
    pub(crate) target: u64,
    /// Where its piece of code begins.
    pub(crate) stub: u32,
}

/// A block of the cache, not yet in use.
pub(crate) struct Translated {
    /// Where direct branches begin.
    pub(crate) body: u32,
    /// Where its own rounds begin, behind what puts registers away for them.
    pub(crate) round: u32,
    /// Registers that were put away where it went on to its next round.
    pub(crate) wanted: GprSet,
    /// Bytes of code.
    pub(crate) length: u32,
    pub(crate) marks: u32,
    ways: [WayOut; WAYS],
    count: usize,
}

impl Translated {
    pub(crate) fn ways(&self) -> &[WayOut] {
        &self.ways[..self.count]
    }
}

/// Where a displacement of 32 bits stands that must reach a word behind the block.
#[derive(Clone, Copy)]
struct Reference {
    at: usize,
    word: u64,
}

/// One translation.
struct Translation<'a, 'w, H, T> {
    around: &'a Surroundings<'a, H, T>,
    block: &'a Block,
    w: Writer<'w>,
    ways: [WayOut; WAYS],
    count: usize,
    /// The return address of the call that ends the block.
    pushed: Option<Reference>,
    /// The program's bytes, which the block compares.
    compared: [Option<Reference>; check::WORDS],
    late: Late,
}

/// Translates the block into `code`.
pub(crate) fn translate<'a, H: Host, T: Tool>(
    around: &'a Surroundings<'a, H, T>,
    block: &'a Block,
    code: Assembler<'a>,
    marks: &'a mut Array<Mark>,
    factory: &mut InstructionInfoFactory,
) -> Result<Translated, Error> {
    let nowhere = WayOut { way: Way::Native, ip: 0, target: 0, stub: 0 };
    let mut cold = Cold::new();
    let w = Writer::of_block(code, marks, &mut cold, around.stubs.routines.addresses());
    let mut translation = Translation {
        around,
        block,
        w,
        ways: [nowhere; WAYS],
        count: 0,
        pushed: None,
        compared: [None; check::WORDS],
        late: Late::new(),
    };
    let live = Liveness::of(block, factory);
    let mut notes = [Note::default(); INSTRUCTIONS];
    let notes = &mut notes[..block.instructions().len()];
    around.tool.survey(&mut Survey { instructions: block.instructions(), factory, notes });
    stubs::entry(&mut translation.w);
    let body = translation.w.code.offset() as u32;
    if around.checked {
        translation.w.at_instruction(0);
        translation.check();
    }
    let round = translation.begin_rounds(live.before(0).registers);
    for (index, instruction) in block.instructions().iter().enumerate() {
        translation.w.at_instruction((instruction.ip() - block.start) as u16);
        let info = factory.info(instruction);
        let flow = crate::decode::flow(instruction).map_err(|why| Error::Refused { ip: instruction.ip(), why })?;
        let site = Site { instruction, flow, memory: info.used_memory(), note: notes[index] };
        let treatment = around.tool.treatment(&site);
        let stays = translation.is_round(flow) || matches!(flow, Flow::Next | Flow::Conditional(_));
        let mut insert = Inserter::new(&mut translation.w, &live, index);
        around.tool.instrument(&site, &mut insert);
        let visits = insert.finish(!stays || treatment == Treatment::Event, flow != Flow::Next);
        if visits {
            translation.hand_over(Way::Visit, instruction.ip(), instruction.next_ip());
        }
        // What a branch needs comes in front of the comparison before it: the processor takes the two as one.
        if let Some(next) = block.instructions().get(index + 1).filter(|next| next.is_jcc_short_or_near()) {
            translation.before_branch(instruction, next);
        }
        let dead = GprSet::ALL.minus(live.before(index).registers);
        translation.instruction(&site, treatment, live.effect(index).used, dead);
    }
    if crate::decode::goes_on(block) {
        translation.w.at_instruction((block.end() - block.start) as u16);
        translation.w.bring_all_back();
        translation.jump_out(block.end(), block.end());
    }
    translation.finish(body, round)
}

impl<H: Host, T: Tool> Translation<'_, '_, H, T> {
    fn way_out(&mut self, way: Way, ip: u64, target: u64) -> u16 {
        self.ways[self.count] = WayOut { way, ip, target, stub: 0 };
        self.count += 1;
        (self.count - 1) as u16
    }

    /// A jump out of the block; `operation` is all of it before its displacement.
    fn leave_by(&mut self, operation: &[u8], ip: u64, target: u64) {
        self.w.code.align(4, operation.len());
        self.w.code.bytes(operation);
        let at = self.w.code.offset() as u32;
        self.w.code.bytes(&[0; 4]);
        self.way_out(Way::Block(at), ip, target);
    }

    fn jump_out(&mut self, ip: u64, target: u64) {
        self.leave_by(&[0xE9], ip, target);
    }

    /// Writes what stands behind the body.
    fn finish(mut self, body: u32, round: u32) -> Result<Translated, Error> {
        self.w.place_cold();
        self.place_late();
        // Offsets mean nothing once something did not fit.
        if self.w.code.is_full() {
            return Err(Error::CodeFull);
        }
        let mut natives = [None; WAYS];
        for (number, native) in natives.iter_mut().enumerate().take(self.count) {
            let way_out = self.ways[number];
            let stub = self.w.code.offset();
            self.ways[number].stub = stub as u32;
            if let Way::Round { .. } = way_out.way {
                self.end_round(number as u16, stub);
            }
            if let Way::Block(at) | Way::Event(at) | Way::Visit(at) | Way::SystemCall(at) | Way::Changed(at) =
                way_out.way
            {
                let from = if way_out.way == Way::Block(at) { at as usize } else { at as usize - 4 };
                self.w.code.patch(from, (stub - from - 4) as i32);
            }
            if matches!(way_out.way, Way::Block(_)) && self.around.host.is_outside(way_out.target) {
                self.ways[number].way = Way::Native;
                // jmp [rip + word]
                self.w.code.bytes(&[0xFF, 0x25, 0, 0, 0, 0]);
                *native = Some(Reference { at: self.w.code.offset() - 4, word: way_out.target });
            } else if let Way::SystemCall(at) = way_out.way
                && way_out.ip == native_call()
            {
                // Behind the copy of the instruction, which leaves nothing in rcx: lea rcx, [rip + distance]
                self.w.code.bytes(&[0x48, 0x8D, 0x0D]);
                let distance = (at as i32 + SYSCALL_BYTES as i32).wrapping_sub(self.w.code.offset() as i32 + 4);
                self.w.code.bytes(&distance.to_le_bytes());
                self.w.code.store(Operand::area(TARGET), Gpr::RCX);
                self.w.code.jump_through(Operand::area(LEAVE_PLAINLY));
            } else {
                self.w.code.store_immediate(Operand::area(EXIT), self.around.first_exit + number as u32);
                self.w.code.jump_through(Operand::area(LEAVE));
            }
        }
        self.w.code.align(8, 0);
        for reference in natives.into_iter().chain([self.pushed]).chain(self.compared).flatten() {
            let here = self.w.code.offset();
            self.w.code.patch(reference.at, (here - reference.at - 4) as i32);
            self.w.code.bytes(&reference.word.to_le_bytes());
        }
        if self.w.code.is_full() || self.w.code.offset() >= BLOCK_BYTES {
            return Err(Error::CodeFull);
        }
        if self.w.is_data_full() {
            return Err(Error::DataFull);
        }
        let length = self.w.code.offset() as u32;
        let marks = self.w.mark_count() as u32;
        let wanted = self.late.wanted;
        Ok(Translated { body, round, wanted, length, marks, ways: self.ways, count: self.count })
    }
}
