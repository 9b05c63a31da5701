//! Code that some process of a session has looked through for something: the others
//! need not, and later sessions need not either, because the launcher keeps it.
//!
//! Apart from the rest of the control memory because three sides use it: the starter,
//! the runtime, and the launcher.

use crate::control::{KNOWN_CODE, KNOWN_WORDS};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};

/// What was found in pieces of code.
#[derive(Debug)]
#[repr(C)]
pub struct KnownCode {
    /// Those that are used come first.
    pub pieces: [KnownPiece; KNOWN_CODE],
}

/// One of them.
#[derive(Debug)]
#[repr(C)]
pub struct KnownPiece {
    /// Names the file and the part of it, as it is now; 0 while the entry is free. Set once.
    pub key: AtomicU64,
    /// 1 once the rest is there.
    pub is_ready: AtomicU32,
    /// How many words there are.
    pub count: AtomicU32,
    /// 1 once somebody has asked for it in this session.
    pub is_used: AtomicU32,
    /// What was found, as who looked for it packs it.
    pub words: [AtomicU32; KNOWN_WORDS],
}

impl KnownCode {
    /// What is known of a piece.
    pub fn recall(&self, key: u64) -> Option<&[AtomicU32]> {
        let piece = self.pieces.iter().find(|piece| piece.key.load(Relaxed) == key)?;
        if piece.is_ready.load(Acquire) == 0 {
            return None;
        }
        piece.is_used.store(1, Relaxed);
        piece.words.get(..piece.count.load(Relaxed) as usize)
    }

    /// Keeps what was found in a piece, if there is room.
    pub fn remember(&self, key: u64, words: impl ExactSizeIterator<Item = u32>) {
        if let Some(piece) = self.enter(key, words) {
            piece.is_used.store(1, Relaxed);
        }
    }

    /// The same of what an earlier session found. Whether there was room.
    pub fn lay(&self, key: u64, words: impl ExactSizeIterator<Item = u32>) -> bool {
        self.enter(key, words).is_some()
    }

    fn enter(&self, key: u64, words: impl ExactSizeIterator<Item = u32>) -> Option<&KnownPiece> {
        let is_its = |piece: &&KnownPiece| match piece.key.compare_exchange(0, key, AcqRel, Acquire) {
            Ok(_) => true,
            Err(other) => other == key,
        };
        if words.len() > KNOWN_WORDS || key == 0 {
            return None;
        }
        let piece = self.pieces.iter().find(is_its)?;
        if piece.is_ready.load(Acquire) != 0 {
            return Some(piece);
        }
        piece.count.store(words.len() as u32, Relaxed);
        // Two that found the same write the same.
        for (place, word) in piece.words.iter().zip(words) {
            place.store(word, Relaxed);
        }
        piece.is_ready.store(1, Release);
        Some(piece)
    }
}
