//! What a tool inserts depends on how it sees the program: the blocks of another view
//! rest until it sees it in that way again.
//!
//! Apart from what makes blocks unreachable because their code changes. A tool that
//! turns from one view to another and back, as often as a program makes threads and
//! joins them, would translate the program anew each time. A block that rests costs no
//! more at a turn than to be found again, and joined again when it is next left.

use super::Cache;

impl Cache {
    /// From here on the tool sees what begins where `varies` says so in this view: blocks of other views rest, and those
    /// of this one are reachable again. How many rest from now on.
    pub(crate) fn turn(&mut self, view: u8, mut varies: impl FnMut(u64) -> bool) -> usize {
        let mut count = 0;
        self.view = view;
        for number in 0..self.pieces.len() as u32 {
            let piece = self.pieces[number as usize];
            if piece.flushed || piece.view == view {
                continue;
            }
            if varies(piece.start) {
                self.take_out(number);
                self.pieces[number as usize].rests = true;
                count += 1;
            } else {
                // It is the same in each.
                self.pieces[number as usize].view = view;
            }
        }
        // Behind that, because of two that begin at one address the index finds one.
        for number in 0..self.pieces.len() as u32 {
            let piece = &mut self.pieces[number as usize];
            if piece.rests && piece.view == view {
                (piece.rests, piece.flushed) = (false, false);
                self.index.insert(number, &self.pieces);
            }
        }
        count
    }

    /// The code of a block changes that rests.
    pub(super) fn forget_resting(&mut self, number: u32) {
        self.pieces[number as usize].rests = false;
        self.put_away(number);
    }
}
