//! Joins exits to the blocks they lead to, and parts them again.
//!
//! Apart from the cache because here is the code that changes what other threads may
//! run at the moment.

use super::{Cache, NONE, Place};
use crate::translate::Way;
use core::ops::Range;
use core::sync::atomic::{AtomicI32, Ordering};

impl Cache {
    /// Lets the exit jump to the block without the dispatcher.
    pub(super) fn join(&mut self, exit: u32, to: u32) {
        let leaving = self.exits[exit as usize];
        let destination = self.pieces[to as usize];
        let (at, behind) = match leaving.out.way {
            Way::Block(at) => (at, destination.body),
            Way::Round { at, .. } if leaving.piece == to => (at, destination.round),
            _ => return,
        };
        if leaving.to != NONE || self.pieces[leaving.piece as usize].flushed {
            return;
        }
        self.aim(exit, at, destination.code + behind);
        let first = core::mem::replace(&mut self.pieces[to as usize].joined, exit);
        let joined = &mut self.exits[exit as usize];
        (joined.to, joined.next) = (to, first);
    }

    /// As [`Self::join`], for what the dispatcher knows.
    pub(crate) fn join_to(&mut self, exit: u32, place: Place) {
        self.join(exit, place.piece);
    }

    /// Sends the exit's jump, whose displacement stands at `at` in its block, to `to` in the cache.
    fn aim(&self, exit: u32, at: u32, to: u32) {
        let from = self.pieces[self.exits[exit as usize].piece as usize].code + at;
        assert!(
            (self.code.as_ptr().addr() + from as usize).is_multiple_of(4),
            "a displacement is one word to the others"
        );
        // SAFETY: the displacement is in a block of this cache and aligned (`Translation::leave_by`); running threads
        // fetch it as a whole, and nobody writes it but under the cache's lock.
        let displacement = unsafe { AtomicI32::from_ptr(self.code.as_ptr().add(from as usize).cast()) };
        displacement.store((to as i32).wrapping_sub(from as i32 + 4), Ordering::Release);
    }

    /// Lets the exit go to the dispatcher again.
    fn part(&mut self, exit: u32) {
        let out = self.exits[exit as usize].out;
        let ends = match out.way {
            Way::Block(at) => Some((at, out.stub)),
            Way::Round { at, parted } => Some((at, parted)),
            _ => None,
        };
        if let Some((at, to)) = ends {
            let code = self.pieces[self.exits[exit as usize].piece as usize].code;
            self.aim(exit, at, code + to);
        }
        self.exits[exit as usize].to = NONE;
    }

    /// Makes every block unreachable that has an instruction in `range`. Returns how many there were.
    ///
    /// The ways out of such a block stay joined, and on the lists of the blocks they lead to: a thread that is in it goes
    /// on to those, and when one of them is flushed in turn, the way there is parted like any other. Unless it is used
    /// again (`versions.rs`), it is never joined again.
    pub(crate) fn flush(&mut self, range: &Range<u64>) -> usize {
        let mut count = 0;
        if !self.pages.may_have(range) {
            return 0;
        }
        for number in 0..self.pieces.len() {
            let piece = self.pieces[number];
            if piece.start >= range.end || piece.end <= range.start {
                continue;
            }
            if piece.rests {
                count += 1;
                self.forget_resting(number as u32);
            } else if !piece.flushed {
                count += 1;
                self.part_with(number as u32);
            }
        }
        count
    }

    /// Makes a block unreachable whose code changes.
    pub(super) fn part_with(&mut self, number: u32) {
        self.take_out(number);
        self.put_away(number);
    }

    /// Makes a block unreachable.
    pub(super) fn take_out(&mut self, number: u32) {
        let piece = self.pieces[number as usize];
        self.index.remove(number, &self.pieces);
        self.table.remove(piece.start);
        let mut exit = piece.joined;
        while exit != NONE {
            let next = self.exits[exit as usize].next;
            self.part(exit);
            exit = next;
        }
        let gone = &mut self.pieces[number as usize];
        (gone.joined, gone.flushed) = (NONE, true);
    }
}
