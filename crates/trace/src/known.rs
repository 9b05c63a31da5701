//! Code that some process of a session has looked through for something: the others
//! need not, and later sessions need not either, because the launcher keeps it.
//!
//! Apart from the rest of the control memory because three sides use it: the starter,
//! the runtime, and the launcher. All zeros is a table in which nothing is known.

use crate::control::{KNOWN_CODE, KNOWN_WORDS};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};

/// What was found in pieces of code.
#[derive(Debug)]
#[repr(C)]
pub struct KnownCode {
    /// How many of the words somebody has taken.
    taken: AtomicU32,
    /// Those that are used come first.
    pieces: [Piece; KNOWN_CODE],
    /// What was found, as who looked for it packs it.
    words: [AtomicU32; KNOWN_WORDS],
}

/// One of them.
#[derive(Debug)]
#[repr(C)]
struct Piece {
    /// Names the file and the part of it, as it is now; 0 while the entry is free. Set once.
    key: AtomicU64,
    /// Where its words are, and how many.
    range: [AtomicU32; 2],
    /// 1 once the rest is there.
    is_ready: AtomicU32,
    /// 1 once somebody has asked for it in this session.
    is_used: AtomicU32,
}

/// What is known of a piece.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Names it.
    pub key: u64,
    /// What was found.
    pub words: &'a [AtomicU32],
    /// Whether somebody has asked for it in this session.
    pub is_used: bool,
}

impl KnownCode {
    /// One in which nothing is known, for a static.
    #[expect(clippy::large_stack_arrays, reason = "it is made when the program is compiled")]
    pub const fn nothing() -> Self {
        Self {
            taken: AtomicU32::new(0),
            pieces: [const {
                Piece {
                    key: AtomicU64::new(0),
                    range: [const { AtomicU32::new(0) }; 2],
                    is_ready: AtomicU32::new(0),
                    is_used: AtomicU32::new(0),
                }
            }; KNOWN_CODE],
            words: [const { AtomicU32::new(0) }; KNOWN_WORDS],
        }
    }

    /// What is known of a piece.
    pub fn recall(&self, key: u64) -> Option<&[AtomicU32]> {
        let piece = self.used().find(|piece| piece.key.load(Relaxed) == key)?;
        let known = self.known(piece)?;
        piece.is_used.store(1, Relaxed);
        Some(known.words)
    }

    /// Keeps what was found in a piece, if there is room, and nobody does so at the same time.
    pub fn remember(&self, key: u64, words: impl ExactSizeIterator<Item = u32>) {
        if let Some(piece) = self.enter(key, words) {
            piece.is_used.store(1, Relaxed);
        }
    }

    /// The same of what an earlier session found. Whether there was room.
    pub fn lay(&self, key: u64, words: impl ExactSizeIterator<Item = u32>) -> bool {
        self.enter(key, words).is_some()
    }

    /// All that is known, in the order in which it came to be.
    pub fn all(&self) -> impl Iterator<Item = Known<'_>> {
        self.used().filter_map(|piece| self.known(piece))
    }

    /// The rest was never touched, and need not be now.
    fn used(&self) -> impl Iterator<Item = &Piece> {
        self.pieces.iter().take_while(|piece| piece.key.load(Acquire) != 0)
    }

    fn known(&self, piece: &Piece) -> Option<Known<'_>> {
        if piece.is_ready.load(Acquire) == 0 {
            return None;
        }
        let [start, count] = [0, 1].map(|at: usize| piece.range[at].load(Relaxed) as usize);
        let words = self.words.get(start..)?.get(..count)?;
        Some(Known { key: piece.key.load(Relaxed), words, is_used: piece.is_used.load(Relaxed) != 0 })
    }

    fn enter(&self, key: u64, words: impl ExactSizeIterator<Item = u32>) -> Option<&Piece> {
        let (start, count) = self.take(words.len(), key)?;
        for piece in &self.pieces {
            match piece.key.compare_exchange(0, key, AcqRel, Acquire) {
                Ok(_) => {
                    piece.range[0].store(start as u32, Relaxed);
                    piece.range[1].store(count as u32, Relaxed);
                    for (place, word) in self.words[start..start + count].iter().zip(words) {
                        place.store(word, Relaxed);
                    }
                    piece.is_ready.store(1, Release);
                    return Some(piece);
                }
                Err(other) if other == key => return None,
                Err(_) => {}
            }
        }
        None
    }

    /// Takes room for so many words, unless there is none for what the key names.
    fn take(&self, count: usize, key: u64) -> Option<(usize, usize)> {
        let is_known = self.used().any(|piece| piece.key.load(Relaxed) == key);
        if key == 0 || is_known || count > KNOWN_WORDS {
            return None;
        }
        let grown = |taken: u32| Some(taken as usize + count).filter(|&end| end <= KNOWN_WORDS).map(|end| end as u32);
        let start = self.taken.fetch_update(Relaxed, Relaxed, grown).ok()?;
        Some((start as usize, count))
    }

    /// Whether there is room for no more than a third of what there is already.
    pub fn is_nearly_full(&self) -> bool {
        let pieces = self.used().count();
        pieces >= KNOWN_CODE / 4 * 3 || self.taken.load(Relaxed) as usize >= KNOWN_WORDS / 4 * 3
    }
}

#[cfg(test)]
mod tests {
    use super::{KNOWN_CODE, KNOWN_WORDS, KnownCode};
    use core::sync::atomic::Ordering::Relaxed;

    fn words(known: &KnownCode, key: u64) -> Option<Vec<u32>> {
        known.recall(key).map(|words| words.iter().map(|word| word.load(Relaxed)).collect())
    }

    #[test]
    fn what_is_remembered_is_recalled_and_nothing_takes_its_place() {
        static KNOWN: KnownCode = KnownCode::nothing();
        KNOWN.remember(7, [1, 2, 3].into_iter());
        KNOWN.remember(8, [].into_iter());
        KNOWN.remember(7, [9].into_iter());
        KNOWN.remember(0, [9].into_iter());
        assert_eq!([7, 8, 9].map(|key| words(&KNOWN, key)), [Some(vec![1, 2, 3]), Some(vec![]), None]);
        assert_eq!(KNOWN.all().map(|known| (known.key, known.words.len())).collect::<Vec<_>>(), [(7, 3), (8, 0)]);
    }

    #[test]
    fn what_has_no_room_is_not_kept() {
        static KNOWN: KnownCode = KnownCode::nothing();
        assert!(!KNOWN.lay(1, vec![0; KNOWN_WORDS + 1].into_iter()));
        assert!(KNOWN.lay(2, vec![5; KNOWN_WORDS - 1].into_iter()) && KNOWN.is_nearly_full());
        assert!(!KNOWN.lay(3, [1, 2].into_iter()) && KNOWN.lay(4, [1].into_iter()));
        assert_eq!([3, 4].map(|key| words(&KNOWN, key)), [None, Some(vec![1])]);
        for key in 5..KNOWN_CODE as u64 + 3 {
            assert!(KNOWN.lay(key, [].into_iter()), "{key}");
        }
        assert!(!KNOWN.lay(9999, [].into_iter()), "all pieces are used");
    }
}
