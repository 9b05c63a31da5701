//! Frames in the small pieces of code to which our library makes system calls jump.
//!
//! Apart because they lie in no file: all that is known of them is what `sites` of
//! `relive-sys` writes there. Most have the routine that carries out the call return behind
//! the call itself, and are no frames. Where a `ret` stood behind the call, the piece has it,
//! and the routine returns there.

use super::machine::{Memory, Registers};
use super::tables::Caller;
use std::ops::Range;

/// Where pieces lie. There may be others; stacks end at those.
const PIECES: Range<u64> = relive_sys::start::PIECES.start as u64..relive_sys::start::PIECES.end as u64;
/// Bytes of one piece.
const PIECE_BYTES: u64 = 32;
/// Where in a piece its `ret` is.
const PIECE_RET: u64 = 24;
/// The routine's return address and the program's red zone, which lie below the program's stack. What else
/// lies among the pieces is called as functions are, and has its address right below the stack.
const BELOW: u64 = 8 + 128;

/// In place of a caller that is the `ret` of a piece, the one to which that returns.
pub(super) fn stepped_over(caller: Caller, memory: Memory<'_>) -> Caller {
    returned(&caller, memory).unwrap_or(caller)
}

fn returned(caller: &Caller, memory: Memory<'_>) -> Option<Caller> {
    let mut next = caller.registers.clone().filter(|_| !caller.interrupted)?;
    let address = next.get(Registers::RIP)?;
    if !PIECES.contains(&address) || address % PIECE_BYTES != PIECE_RET {
        return None;
    }
    let slot = next.get(Registers::RSP)?;
    if caller.slot != slot.checked_sub(BELOW) {
        return None;
    }
    next.set(Registers::RIP, Some(memory.word(slot)?));
    next.set(Registers::RSP, Some(slot.checked_add(8)?));
    Some(Caller { registers: Some(next), slot: Some(slot), interrupted: false })
}
