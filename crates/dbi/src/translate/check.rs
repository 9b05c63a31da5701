//! What a block begins with whose code may change unnoticed: it compares the program's
//! bytes with those it was made from, and leaves if they differ.
//!
//! Apart from the translation of instructions: all registers and flags are kept here,
//! because what the block says of them means nothing if its code is another by now. The
//! words are read as they are aligned, so that one that the program changes as a whole
//! is seen as a whole, and that a program which checks alignment meets none of ours.

use super::{Reference, Translation, Way};
use crate::decode::{Block, CHECKED_BYTES};
use crate::host::Host;
use crate::register::Gpr;
use crate::tool::Tool;

/// Bytes that are compared at a time.
const WORD: u64 = 8;
/// Words that a block may lie in.
pub(super) const WORDS: usize = (CHECKED_BYTES / WORD) as usize + 1;

/// A part of the block within one aligned word.
struct Part {
    word: u64,
    /// The block's bytes where they stand in the word.
    expected: u64,
    /// What of the word stands below and above them, in bits.
    below: u8,
    above: u8,
}

/// The parts of a block.
fn parts(block: &Block) -> impl Iterator<Item = Part> + '_ {
    let (start, end) = (block.start, block.end());
    (start - start % WORD..end).step_by(WORD as usize).map(move |word| {
        let (from, to) = (word.max(start), (word + WORD).min(end));
        let mut bytes = [0; WORD as usize];
        bytes[(from - word) as usize..(to - word) as usize].copy_from_slice(block.bytes(from, to));
        let (below, above) = ((from - word) as u8 * 8, (word + WORD - to) as u8 * 8);
        Part { word, expected: u64::from_le_bytes(bytes), below, above }
    })
}

impl<H: Host, T: Tool> Translation<'_, '_, H, T> {
    /// Writes the comparison. Behind it rax and the flags are put away.
    pub(super) fn check(&mut self) {
        let block = self.block;
        assert!(self.w.spill(Gpr::RAX), "a block begins with all words free");
        self.w.save_flags(true);
        let mut leave = None;
        for (number, part) in parts(block).enumerate() {
            self.compare(number, &part);
            self.w.code.bytes(&[0x0F, 0x85, 0, 0, 0, 0]);
            let behind = self.w.code.offset();
            // The flags still say so at the first.
            if let Some(first) = leave {
                self.w.code.patch(behind - 4, first as i32 - behind as i32);
            } else {
                leave = Some(behind - 6);
                self.way_out(Way::Changed(behind as u32), block.start, block.start);
            }
        }
    }

    /// Sets the flag of zero if the part is as it was. Changes rax.
    fn compare(&mut self, number: usize, part: &Part) {
        let code = &mut self.w.code;
        // mov rax, [word], whose address has 64 bits
        code.bytes(&[0x48, 0xA1]);
        code.bytes(&part.word.to_le_bytes());
        let whole = part.below + part.above == 0;
        // cmp or xor rax, [rip + expected]
        code.bytes(&[0x48, if whole { 0x3B } else { 0x33 }, 0x05, 0, 0, 0, 0]);
        self.compared[number] = Some(Reference { at: code.offset() - 4, word: part.expected });
        if part.above > 0 {
            code.shift_left(Gpr::RAX, part.above);
        }
        if part.below > 0 {
            code.shift_right(Gpr::RAX, part.below + part.above);
        }
    }
}
