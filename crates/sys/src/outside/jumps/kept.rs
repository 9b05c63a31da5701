//! Which instruction runs where in a piece, and back: a handler must find a thread
//! at the program's own code, and what it sends on to bytes that a jump has taken must
//! come to the piece.
//!
//! Apart from the pieces because it is read in signal handlers, while other threads
//! map libraries.

use crate::room::JUMP_BYTES;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Pieces of a process; more are not made.
const MOST: usize = 1024;
/// Instructions of one, at most.
pub(super) const INSTRUCTIONS: usize = 8;

/// Bytes of each instruction, in order.
pub(super) type Lengths = [u8; INSTRUCTIONS];

/// Where the code of a piece begins, and its window; 0 for none.
#[derive(Debug)]
struct Kept {
    window: AtomicUsize,
    piece: AtomicUsize,
    /// [`Lengths`] of the instructions, and of what runs in their place.
    own: AtomicU64,
    copies: AtomicU64,
}

static KEPT: [Kept; MOST] = [const {
    Kept { window: AtomicUsize::new(0), piece: AtomicUsize::new(0), own: AtomicU64::new(0), copies: AtomicU64::new(0) }
}; MOST];
/// No piece is behind this one.
static USED: AtomicUsize = AtomicUsize::new(0);

fn used() -> &'static [Kept] {
    &KEPT[..USED.load(Ordering::Acquire)]
}

/// Keeps a piece, one at a time. `false` if there is no room.
pub(super) fn keep(window: usize, piece: usize, own: Lengths, copies: Lengths) -> bool {
    let free = used().iter().position(|kept| kept.window.load(Ordering::Relaxed) == 0).unwrap_or(used().len());
    let Some(kept) = KEPT.get(free) else { return false };
    kept.piece.store(piece, Ordering::Relaxed);
    kept.own.store(u64::from_le_bytes(own), Ordering::Relaxed);
    kept.copies.store(u64::from_le_bytes(copies), Ordering::Relaxed);
    kept.window.store(window, Ordering::Release);
    USED.fetch_max(free + 1, Ordering::AcqRel);
    true
}

/// The code in a range is no more.
pub fn forget(range: &Range<usize>) {
    for kept in used().iter().filter(|kept| range.contains(&kept.window.load(Ordering::Relaxed))) {
        kept.window.store(0, Ordering::Release);
    }
}

/// Where instructions begin when they have these lengths: those from `from` on, and those from `to` on.
fn pairs(from: usize, to: usize, lengths: [u64; 2]) -> impl Iterator<Item = (Range<usize>, usize)> {
    let [mut from, mut to] = [from, to];
    let [first, second] = lengths.map(u64::to_le_bytes);
    first.into_iter().zip(second).take_while(|(length, _)| *length != 0).map(move |(length, other)| {
        let pair = (from..from + usize::from(length), to);
        (from, to) = (pair.0.end, to + usize::from(other));
        pair
    })
}

/// The instruction that runs at `place`, a place in a piece.
pub fn original(place: usize) -> Option<usize> {
    used().iter().find_map(|kept| {
        let window = kept.window.load(Ordering::Acquire);
        let lengths = [&kept.copies, &kept.own].map(|lengths| lengths.load(Ordering::Relaxed));
        let mut found = pairs(kept.piece.load(Ordering::Relaxed), window, lengths);
        found.find(|(copy, _)| window != 0 && copy.contains(&place)).map(|(_, own)| own)
    })
}

/// Where the instruction at `place` runs, if a jump has taken its bytes.
pub fn copy_of(place: usize) -> Option<usize> {
    used().iter().find_map(|kept| {
        let window = kept.window.load(Ordering::Acquire);
        if window == 0 || !(window + 1..window + JUMP_BYTES).contains(&place) {
            return None;
        }
        let lengths = [&kept.own, &kept.copies].map(|lengths| lengths.load(Ordering::Relaxed));
        let mut found = pairs(window, kept.piece.load(Ordering::Relaxed), lengths);
        found.find(|(own, _)| own.start == place).map(|(_, copy)| copy)
    })
}

#[cfg(test)]
mod tests {
    use super::{copy_of, forget, keep, original};

    #[test]
    fn each_instruction_has_its_copy() {
        const WINDOW: usize = 0x7000_1000;
        const PIECE: usize = 0x7100_0020;
        assert!(keep(WINDOW, PIECE, [1, 2, 3, 0, 0, 0, 0, 0], [1, 19, 6, 0, 0, 0, 0, 0]));
        assert_eq!(
            [0, 1, 19, 20, 25, 26].map(|at| original(PIECE + at)),
            [Some(WINDOW), Some(WINDOW + 1), Some(WINDOW + 1), Some(WINDOW + 3), Some(WINDOW + 3), None]
        );
        assert_eq!(
            [0, 1, 2, 3, 5].map(|at| copy_of(WINDOW + at)),
            [None, Some(PIECE + 1), None, Some(PIECE + 20), None]
        );
        forget(&(WINDOW - 1..WINDOW + 1));
        assert_eq!((original(PIECE + 1), copy_of(WINDOW + 1)), (None, None));
    }
}
