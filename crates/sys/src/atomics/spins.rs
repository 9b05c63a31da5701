//! Loads that a thread does over and over until another one has stored: the loops of a thread
//! that waits without the kernel.
//!
//! Such a thread has a lock of ours nearly all the time, for each load is ordered. Who
//! is to store waits for it, and for ever so long if the thread loses its processor just
//! then. So these are told from others, and whoever meets one often waits before it takes the lock.
//!
//! A loop counts as one only if it does nothing but load, compare, count and pause: to
//! wait in one that also looks whether it is to stop would make it slow.

use crate::decode::Instruction;

/// Bytes of such a loop, at most.
const LOOP_BYTES: usize = 64;

/// Whether the load at `place`, in a function that begins at `start` of the code and goes on up to its end, is in such a
/// loop.
pub(super) fn spins(code: &[u8], start: usize, place: usize) -> bool {
    let Some(load) = Instruction::at(&code[place..]) else { return false };
    if !loads(&load) {
        return false;
    }
    let mut at = place;
    while at < code.len().min(place + LOOP_BYTES) {
        let Some(found) = Instruction::at(&code[at..]) else { return false };
        let end = at + found.length;
        match jump(&found, &code[at..]) {
            Some(distance) => {
                let target = end.wrapping_add_signed(distance);
                if (start..=place).contains(&target) && end - target <= LOOP_BYTES {
                    return only_waits(&code[..place], target);
                }
                // Who leaves for good goes on elsewhere.
                if found.map == 0 && matches!(found.opcode, 0xEB | 0xE9) {
                    return false;
                }
            }
            None if !is_idle(&found) => return false,
            None => {}
        }
        at = end;
    }
    false
}

/// The same of the rest of the loop, from `at` to where the code ends.
fn only_waits(code: &[u8], mut at: usize) -> bool {
    while at < code.len() {
        match Instruction::at(&code[at..]) {
            Some(found) if is_idle(&found) || jump(&found, &code[at..]).is_some() => at += found.length,
            _ => return false,
        }
    }
    at == code.len()
}

/// How far a jump goes, by a condition or without.
fn jump(found: &Instruction, code: &[u8]) -> Option<isize> {
    let behind = found.opcode_at + 1;
    let far = |at: usize| code.get(at..)?.first_chunk().map(|bytes| i32::from_le_bytes(*bytes) as isize);
    match (found.map, found.opcode) {
        (0, 0x70..=0x7F | 0xEB) => Some(code[behind] as i8 as isize),
        (0, 0xE9) => far(behind),
        (1, 0x80..=0x8F) => far(behind + 1),
        _ => None,
    }
}

/// Whether an instruction names memory, and only looks at it.
fn loads(found: &Instruction) -> bool {
    let Some(operands) = found.operands.filter(|operands| operands >> 6 != 3) else { return false };
    match (found.map, found.opcode) {
        (0, 0x38..=0x3B | 0x84 | 0x85 | 0x8A | 0x8B | 0x02 | 0x03 | 0x0A | 0x0B) | (1, 0xB6 | 0xB7 | 0xBE | 0xBF) => {
            true
        }
        (0, 0x80 | 0x81 | 0x83) => operands >> 3 & 7 == 7,
        (0, 0xF6 | 0xF7) => operands >> 3 & 7 <= 1,
        _ => false,
    }
}

/// Whether an instruction changes nothing but registers, and goes on behind itself.
fn is_idle(found: &Instruction) -> bool {
    if loads(found) {
        return true;
    }
    // `pause` and other forms of doing nothing, and what computes with registers alone.
    match (found.map, found.opcode) {
        (0, 0x90 | 0x8D | 0x04 | 0x05 | 0x2C | 0x2D | 0x3C | 0x3D | 0xA8 | 0xA9 | 0xB8..=0xBF | 0x98 | 0x99)
        | (1, 0x1F) => true,
        (0, 0x00..=0x3B | 0x63 | 0x80 | 0x81 | 0x83..=0x85 | 0x88..=0x8B | 0xF6 | 0xF7 | 0xFE | 0xFF) => {
            let part = found.operands.map_or(7, |operands| operands >> 3 & 7);
            let computes = match found.opcode {
                0xF6 | 0xF7 => part <= 3,
                0xFE | 0xFF => part <= 1,
                _ => true,
            };
            computes && found.operands.is_some_and(|operands| operands >> 6 == 3)
        }
        (1, 0x40..=0x4F | 0x90..=0x9F | 0xB6 | 0xB7 | 0xBE | 0xBF) => {
            found.operands.is_some_and(|operands| operands >> 6 == 3)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::spins;

    /// Whether the load at `place` of this code, and what follows, is in such a loop.
    fn is(code: &[&[u8]], place: usize) -> bool {
        let bytes = code.concat();
        spins(&bytes, 0, code[..place].concat().len())
    }

    const LOAD: &[u8] = &[0x8B, 0x07];
    const TEST: &[u8] = &[0x85, 0xC0];
    const PAUSE: &[u8] = &[0xF3, 0x90];
    const STORE: &[u8] = &[0x89, 0x06];
    const CALL: &[u8] = &[0xE8, 0, 0, 0, 0];
    const RET: &[u8] = &[0xC3];

    #[test]
    fn loops_that_wait_are_told_from_others() {
        assert!(is(&[LOAD, TEST, &[0x74, 0xFA], RET], 0), "back to the load");
        assert!(is(&[PAUSE, LOAD, TEST, &[0x74, 0xF8], RET], 1), "back to the pause before it");
        assert!(is(&[LOAD, TEST, &[0x75, 0x04], PAUSE, &[0xEB, 0xF6], RET], 0), "out of the loop and back");
        assert!(is(&[LOAD, TEST, &[0x75, 0x05], &[0x48, 0xFF, 0xC9], &[0x75, 0xF5], RET], 0), "so many times");
        assert!(is(&[&[0x48, 0x83, 0x3F, 0x00], &[0x74, 0xFA], RET], 0), "cmp qword ptr [rdi], 0");
        assert!(is(&[&[0x0F, 0xB6, 0x07], &[0x84, 0xC0], &[0x0F, 0x84, 0xF5, 0xFF, 0xFF, 0xFF], RET], 0), "movzx");
        assert!(!is(&[LOAD, TEST, &[0x74, 0x02], STORE, RET], 0), "no loop");
        assert!(!is(&[LOAD, TEST, STORE, &[0x74, 0xF8], RET], 0), "it stores");
        assert!(!is(&[STORE, LOAD, TEST, &[0x74, 0xF8], RET], 1), "it stores before");
        assert!(!is(&[CALL, LOAD, TEST, &[0x74, 0xF5], RET], 1), "it calls");
        assert!(!is(&[LOAD, RET, &[0x74, 0xFB]], 0), "it returns");
        assert!(!is(&[STORE, TEST, &[0x74, 0xFA], RET], 0), "no load");
        assert!(!is(&[&[0x85, 0xC0], &[0x74, 0xFC], RET], 0), "no memory");
        assert!(!is(&[LOAD, TEST, &[0x74, 0xF0], RET], 0), "to before the function");
        assert!(!is(&[LOAD, &[0x01, 0x06], &[0x74, 0xFA], RET], 0), "it adds to memory");
    }
}
