//! Which bytes around an instruction a jump may take: whole instructions that may run
//! elsewhere, and that nothing comes to but by the first.
//!
//! Apart because more than one kind of instruction is made into jumps.

pub(crate) mod moved;
pub(crate) mod tables;

use crate::decode::{self, Instruction};
use core::ops::Range;
use moved::Moved;

/// Bytes of a jump.
pub(crate) const JUMP_BYTES: usize = 5;
/// Instructions before the one that is changed, at most.
const LEADING: usize = 4;

/// Where the other bytes that a jump needs come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// From behind the instruction: nothing but a jump comes in between.
    Behind,
    /// From before it, too.
    Before,
    /// Even from a jump before it that goes by a condition.
    Branch,
}

/// Whether all jumps in the function that begins at `start` of the code and ends with it are known: none goes where a
/// register or a table says.
pub(crate) fn is_known(code: &[u8], start: usize) -> bool {
    let mut at = start;
    while at < code.len() {
        match Instruction::at(&code[at..]) {
            Some(found) if !jumps_anywhere(&found) => at += found.length,
            _ => return false,
        }
    }
    true
}

/// The room around the instruction of `length` bytes at `place`, in the function that begins at `start` of the code and
/// ends with it. Jumps into it are not looked for.
pub(crate) fn find(code: &[u8], start: usize, place: usize, length: usize, side: Side) -> Option<Range<usize>> {
    let room = |start| behind(code, start, place + length).map(|end| start..end);
    if side == Side::Behind {
        return room(place);
    }
    let mut before = [None; LEADING];
    let mut at = start;
    while at < place {
        before.rotate_right(1);
        before[0] = Some(at);
        at += decode::length(&code[at..])?;
    }
    before.into_iter().map_while(|start| start.filter(|&start| may_lead(code, start, side))).find_map(room)
}

/// Whether it goes where a register or a table says.
fn jumps_anywhere(found: &Instruction) -> bool {
    found.map == 0 && found.opcode == 0xFF && found.operands.is_some_and(|operands| matches!(operands >> 3 & 7, 4 | 5))
}

/// Whether the instruction at `start` may run in a piece before another one.
fn may_lead(code: &[u8], start: usize, side: Side) -> bool {
    let moved = Instruction::at(&code[start..]).and_then(|found| Moved::of(&found, &code[start..]));
    moved.is_some_and(|moved| if side == Side::Branch { !moved.leaves() } else { !moved.jumps() })
}

/// Where room from `start` on ends: so far behind the instruction, which ends at `end`, that a jump fits.
fn behind(code: &[u8], start: usize, mut end: usize) -> Option<usize> {
    while end - start < JUMP_BYTES {
        let found = Instruction::at(code.get(end..)?)?;
        let moved = Moved::of(&found, &code[end..])?;
        end += found.length;
        if moved.leaves() && end - start < JUMP_BYTES {
            return None;
        }
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::{Side, is_known};

    const RDTSC: [u8; 2] = [0x0F, 0x31];

    /// Start and end of the window around the one `rdtsc` of a function.
    fn found(code: &[u8], side: Side) -> Option<[usize; 2]> {
        let place = code.windows(2).position(|pair| pair == RDTSC).unwrap();
        let found = super::find(code, 0, place, RDTSC.len(), side).filter(|_| is_known(code, 0));
        found.map(|room| [room.start, room.end])
    }

    #[test]
    fn a_window_takes_whole_instructions_behind() {
        assert_eq!(found(&[0x0F, 0x31, 0x48, 0xC1, 0xE2, 0x20, 0xC3], Side::Behind), Some([0, 6]));
        assert_eq!(found(&[0x90, 0x0F, 0x31, 0x89, 0xC0, 0xC3], Side::Behind), Some([1, 6]), "with the ret");
        assert_eq!(found(&[0x0F, 0x31, 0x90, 0x73, 0xFB, 0xC3], Side::Behind), Some([0, 5]), "with the jump");
        assert_eq!(found(&[0x0F, 0x31, 0xC3], Side::Behind), None, "another function");
        assert_eq!(found(&[0x0F, 0x31, 0xC3, 0x90, 0x90, 0x90], Side::Behind), None, "nothing follows a ret");
        assert_eq!(found(&[0x0F, 0x31, 0xE8, 0, 0, 0, 0], Side::Behind), None, "a call pushes its place");
        assert_eq!(found(&[0x0F, 0x31, 0xF3, 0x0F, 0x1E, 0xFA, 0x90], Side::Behind), None, "where others come to");
        assert_eq!(found(&[0x0F, 0x31, 0x89, 0xC0, 0x90, 0xFF, 0xE0], Side::Behind), None, "a jump to anywhere");
        assert_eq!(found(&[0x0F, 0x31, 0x0F, 0xAE, 0xE8, 0xC3], Side::Behind), Some([0, 5]), "a fence");
    }

    #[test]
    fn a_window_takes_no_more_before_than_it_needs() {
        let code = [0x53, 0x0F, 0xAE, 0xE8, 0x0F, 0x31, 0xE8, 0, 0, 0, 0];
        assert_eq!((found(&code, Side::Behind), found(&code, Side::Before)), (None, Some([1, 6])));
        assert_eq!(found(&[0x53, 0x53, 0x0F, 0x31, 0xC3], Side::Before), Some([0, 5]));
        assert_eq!(found(&[0x53, 0xE8, 0, 0, 0, 0, 0x0F, 0x31, 0xC3], Side::Before), None, "behind a call");
        assert_eq!(found(&[0x73, 0x00, 0x0F, 0x31, 0x90, 0xC3], Side::Before), None, "behind a jump");
        assert_eq!(found(&[0x73, 0x00, 0x0F, 0x31, 0x90, 0xC3], Side::Branch), Some([0, 5]));
        assert_eq!(found(&[0xEB, 0x00, 0x0F, 0x31, 0x90, 0xC3], Side::Branch), None, "behind the end");
    }
}
