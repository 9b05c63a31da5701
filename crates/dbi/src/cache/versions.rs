//! Blocks whose code changed, and is again what it was: they are used again.
//!
//! Apart from what makes blocks unreachable. Programs that make code write a page of it
//! again and again and change little, or change a word to and fro; each time what was
//! translated would be translated anew, and the cache never gets its room back.

use super::{Cache, NONE};
use crate::decode::Block;

/// Versions of one block that are remembered.
const VERSIONS: usize = 16;

impl Cache {
    /// Remembers a block that was made unreachable.
    pub(super) fn put_away(&mut self, number: u32) {
        let piece = self.pieces[number as usize];
        if piece.source == NONE {
            return;
        }
        let newest = self.old.find(piece.start, &self.pieces);
        let mut at = newest;
        // The oldest goes: it is found no more.
        for version in 1..VERSIONS {
            let Some(here) = at else { break };
            let older = self.pieces[here as usize].older;
            at = Some(older).filter(|&older| older != NONE);
            if version == VERSIONS - 1 {
                self.pieces[here as usize].older = NONE;
            }
        }
        if let Some(newest) = newest {
            self.old.remove(newest, &self.pieces);
        }
        self.pieces[number as usize].older = newest.unwrap_or(NONE);
        self.old.insert(number, &self.pieces);
    }

    /// Makes a version of the block reachable again that was made from the same bytes, in the same way.
    pub(super) fn take_back(&mut self, block: &Block, checked: bool) -> Option<u32> {
        let newest = self.old.find(block.start, &self.pieces)?;
        let (mut newer, mut number) = (NONE, newest);
        while number != NONE {
            let piece = self.pieces[number as usize];
            let source = &self.sources[piece.source as usize..][..(piece.end - piece.start) as usize];
            let is_alike = piece.checked == checked && piece.view == self.view && piece.end == block.end();
            if is_alike && source == block.bytes(piece.start, piece.end) {
                break;
            }
            (newer, number) = (number, piece.older);
        }
        let piece = *self.pieces.get(number as usize)?;
        if newer == NONE {
            self.old.remove(number, &self.pieces);
            if piece.older != NONE {
                self.old.insert(piece.older, &self.pieces);
            }
        } else {
            self.pieces[newer as usize].older = piece.older;
        }
        let back = &mut self.pieces[number as usize];
        (back.older, back.flushed) = (NONE, false);
        self.index.insert(number, &self.pieces);
        self.pages.add(&(piece.start..piece.end));
        Some(number)
    }

    /// The block of this exit found that its code is another.
    pub(crate) fn changed(&mut self, exit: u32) {
        let Some(number) = self.exits.get(exit as usize).map(|exit| exit.piece) else { return };
        if !self.pieces[number as usize].flushed {
            self.part_with(number);
        }
    }

    /// Keeps the bytes that a block is made from; where.
    pub(super) fn keep_source(&mut self, block: &Block) -> Option<u32> {
        let first = self.sources.len();
        for &byte in block.bytes(block.start, block.end()) {
            if self.sources.push(byte).is_err() {
                self.sources.truncate(first);
                return None;
            }
        }
        Some(first as u32)
    }
}
