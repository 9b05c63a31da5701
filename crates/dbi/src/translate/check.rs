//! What a block begins with whose code may change unnoticed: it compares the program's
//! bytes with those it was made from, and leaves if they differ.
//!
//! Apart from the translation of instructions: all registers and flags are kept here,
//! because what the block says of them means nothing if its code is another by now. The
//! words are read as they are aligned, so that one that the program changes as a whole
//! is seen as a whole, and that a program which checks alignment meets none of ours.

use super::{Translation, Way};
use crate::assembler::Operand;
use crate::decode::Block;
use crate::host::Host;
use crate::register::Gpr;
use crate::tool::Tool;

/// Bytes that are compared at a time.
const WORD: u64 = 8;

/// A part of the block within one aligned word.
struct Part {
    /// From the beginning of the first word.
    at: i32,
    /// The block's bytes, moved to the word's highest ones.
    expected: u64,
    /// What of the word stands below and above them, in bits.
    below: u32,
    above: u32,
}

/// The parts of a block.
fn parts(block: &Block) -> impl Iterator<Item = Part> + '_ {
    let (start, end) = (block.start, block.end());
    let first = start - start % WORD;
    (first..end).step_by(WORD as usize).map(move |word| {
        let (from, to) = (word.max(start), (word + WORD).min(end));
        let mut bytes = [0; WORD as usize];
        let part = block.bytes(from, to);
        bytes[..part.len()].copy_from_slice(part);
        let (below, above) = ((from - word) as u32 * 8, (word + WORD - to) as u32 * 8);
        Part { at: (word - first) as i32, expected: u64::from_le_bytes(bytes), below, above }
    })
}

impl<H: Host, T: Tool> Translation<'_, '_, H, T> {
    /// Writes the comparison. Behind it rax, rcx and the flags are put away.
    pub(super) fn check(&mut self) {
        let block = self.block;
        assert!(self.w.spill(Gpr::RAX) && self.w.spill(Gpr::RCX), "a block begins with all words free");
        self.w.save_flags(true);
        self.w.code.constant(Gpr::RCX, block.start - block.start % WORD);
        let mut leave = None;
        for part in parts(block) {
            self.compare(&part);
            match leave {
                None => {
                    self.w.code.bytes(&[0x0F, 0x85, 0, 0, 0, 0]);
                    leave = Some(self.w.code.offset() - 6);
                    self.way_out(Way::Changed(self.w.code.offset() as u32), block.start, block.start);
                }
                Some(first) => {
                    // The flags still say so there.
                    let distance = first as i32 - (self.w.code.offset() as i32 + 6);
                    self.w.code.bytes(&[0x0F, 0x85]);
                    self.w.code.bytes(&distance.to_le_bytes());
                }
            }
        }
    }

    /// Sets the flag of zero if the part is as it was. Changes rax.
    fn compare(&mut self, part: &Part) {
        let word = Operand::at(Gpr::RCX, part.at);
        let code = &mut self.w.code;
        code.constant(Gpr::RAX, part.expected << part.below);
        if (part.below, part.above) == (0, 0) {
            return code.compare(Gpr::RAX, word);
        }
        code.exclusive_or_with(Gpr::RAX, word);
        if part.above > 0 {
            code.shift_left(Gpr::RAX, part.above as u8);
        }
        if part.below > 0 {
            code.shift_right(Gpr::RAX, (part.below + part.above) as u8);
        }
    }
}
