//! Instructions of the program that run in a watch's code: where they stand, and where
//! the one that stands somewhere runs.
//!
//! Apart because faults ask, and the ways back from handlers, and not the watches.

use super::{Strike, TABLE, Table};
use crate::environment::read_memory;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};
use relive_sys::decode::{Instruction, LONGEST};
use relive_sys::passage::{self, JUMP_BYTES};
use relive_sys::signal::Context;

/// The instruction that a thread is at which has met a fault, if that runs in a watch's code.
#[inline(never)]
pub fn original(context: &mut Context) -> Option<usize> {
    let place = context.place();
    if !passage::is_stub(place) && !passage::site::is_site(place) {
        return None;
    }
    let table = TABLE.lock();
    let (original, begins) = table.original(place)?;
    if !begins {
        // A call is several there, the first of which makes room for its return address.
        context.set_stack_pointer(context.stack_pointer() + size_of::<usize>() as u64);
    }
    Some(original)
}

/// Where the instruction at `place` runs, if a jump of a watch has taken its bytes. Not among other threads: there each
/// instruction that a jump has taken begins with a trap.
#[inline(never)]
pub fn copy_of(place: usize) -> Option<usize> {
    if !ALONE.load(Ordering::Relaxed) {
        return None;
    }
    let table = TABLE.lock();
    table.strikes.iter().filter(|strike| strike.owner != 0).find_map(|strike| strike.copy_of(place))
}

/// Whether a jump was ever laid that is no site's.
pub(super) static ALONE: AtomicBool = AtomicBool::new(false);

impl Table {
    /// The instruction that runs at `place`, and whether it begins there.
    fn original(&self, place: usize) -> Option<(usize, bool)> {
        if !passage::is_stub(place) {
            return self.crowd.original(place);
        }
        let strike = self.strikes.iter().find(|strike| passage::in_stub(strike.stub, place))?;
        let mut pairs = strike.pairs();
        pairs.find_map(|(own, copy)| copy.contains(&place).then_some((own, place == copy.start)))
    }
}

impl Strike {
    /// The instructions that the stub has copies of: where they stand, and their copies.
    fn pairs(&self) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        let (entry, stub) = (passage::entry_of(self.stub), self.stub);
        let lead = Pairs { strike: self, own: self.entry(), at: entry, code: &self.lead_code[..self.lead_bytes] };
        lead.chain(Pairs { strike: self, own: self.place, at: stub, code: &self.code[..self.code_bytes] })
    }

    fn copy_of(&self, place: usize) -> Option<usize> {
        let taken = self.entry() + 1..self.entry() + JUMP_BYTES;
        if self.trapped || self.thread != 0 || !taken.contains(&place) {
            return None;
        }
        if place == self.place {
            // A passage.
            return Some(passage::entry_of(self.stub) + self.lead_bytes);
        }
        self.pairs().find_map(|(own, copy)| (own == place).then_some(copy.start))
    }

    /// The program's own code at `place`.
    fn code_at(&self, place: usize) -> [u8; LONGEST] {
        let (mut code, mut readable) = ([0; LONGEST], LONGEST);
        while readable > 0 && !read_memory(place, &mut code[..readable]) {
            readable -= 1;
        }
        let (start, length) = if self.trapped { (self.place, 1) } else { (self.entry(), JUMP_BYTES) };
        let length = if self.owner == 0 { 0 } else { length };
        for (index, before) in self.before.iter().enumerate().take(length) {
            if let Some(byte) = (start + index).checked_sub(place).and_then(|at| code.get_mut(at)) {
                *byte = *before;
            }
        }
        code
    }
}

/// Walks over instructions and their copies.
struct Pairs<'a> {
    strike: &'a Strike,
    own: usize,
    at: usize,
    code: &'a [u8],
}

impl Iterator for Pairs<'_> {
    type Item = (usize, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        let own = Instruction::at(&self.strike.code_at(self.own))?;
        let calls = match (own.map, own.opcode) {
            (0, 0xE8) => true,
            (0, 0xFF) => own.operands.is_some_and(|operands| operands >> 3 & 7 == 2),
            _ => false,
        };
        // A call, the last of them if there is one, is several.
        let length = if calls { self.code.len() } else { Instruction::at(self.code)?.length };
        let found = (self.own, self.at..self.at + length);
        self.code = self.code.get(length..).filter(|_| length > 0)?;
        (self.own, self.at) = (self.own + own.length, self.at + length);
        Some(found)
    }
}
