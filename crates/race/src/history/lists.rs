//! Lists of entries, for lines that remember more than two segments.
//!
//! A list lies in one piece in a chunk of 2, 4, 8, … entries. Chunks are cut from one
//! piece of memory, in order, and handed out again when they are free: a free one's
//! first word says which is the next free one of its size. A lock guards what is free,
//! for a moment; lists themselves belong to who holds their line's cell.
//!
//! Apart from the cells so that a line with few entries, the common case, pays nothing
//! for it.

use super::entry::Slot;
use super::memory::Host;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Entries of the smallest chunk.
const SMALLEST: usize = 2;
/// Sizes of chunks.
const CLASSES: usize = 24;

/// Words of the state: the lock, how many slots are cut off, how many of these are free, and the first free chunk of
/// each class.
const LOCK: usize = 0;
const CUT: usize = 1;
const UNUSED: usize = 2;
const FREE: usize = 3;
pub(super) const LISTS_WORDS: usize = FREE + CLASSES;

/// A chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct List {
    pub(super) class: usize,
    /// The number of its first slot among all, from one on.
    place: u64,
}

impl List {
    const CLASS_BITS: u32 = 5;
    /// What a packed one needs.
    pub(super) const BITS: u32 = 40;

    pub(super) fn pack(self) -> u64 {
        self.place << Self::CLASS_BITS | self.class as u64
    }

    /// `None` for zero.
    #[inline]
    pub(super) fn unpack(packed: u64) -> Option<Self> {
        let class = (packed & ((1 << Self::CLASS_BITS) - 1)) as usize;
        (packed != 0).then_some(Self { class, place: packed >> Self::CLASS_BITS })
    }
}

/// How many entries a chunk holds.
#[inline]
pub(super) const fn capacity(class: usize) -> usize {
    SMALLEST << class
}

/// The memory of lists.
#[derive(Debug)]
pub(super) struct Lists<'m> {
    state: &'m [AtomicU64],
    slots: &'m [Slot],
}

impl<'m> Lists<'m> {
    pub(super) fn new(state: &'m [AtomicU64], slots: &'m [Slot]) -> Self {
        assert_eq!(state.len(), LISTS_WORDS);
        Self { state, slots }
    }

    /// The place of an entry. Only for who holds the cell of the list's line.
    #[inline]
    pub(super) fn entry(&self, list: List, index: usize) -> &'m Slot {
        &self.slots[list.place as usize - 1 + index]
    }

    /// A chunk of this class, whose entries may hold anything.
    pub(super) fn take(&self, class: usize, host: &impl Host) -> List {
        assert!(class < CLASSES, "a line has an entry for each thread and byte at most");
        self.alone(host, |state| {
            let free = state[FREE + class].load(Relaxed);
            if free != 0 {
                let next = self.slots[free as usize - 1].load_word();
                state[FREE + class].store(next, Relaxed);
                add(&state[UNUSED], -(capacity(class) as i64));
                return List { class, place: free };
            }
            let cut = state[CUT].load(Relaxed);
            assert!(cut as usize + capacity(class) <= self.slots.len(), "the memory for lists of entries is full");
            add(&state[CUT], capacity(class) as i64);
            List { class, place: cut + 1 }
        })
    }

    /// Gives a chunk back.
    pub(super) fn give_back(&self, list: List, host: &impl Host) {
        self.alone(host, |state| {
            let first = &state[FREE + list.class];
            self.slots[list.place as usize - 1].store_word(first.load(Relaxed));
            first.store(list.place, Relaxed);
            add(&state[UNUSED], capacity(list.class) as i64);
        });
    }

    /// Bytes of the lists in use.
    pub(super) fn used_bytes(&self) -> usize {
        let words = [CUT, UNUSED].map(|word| self.state[word].load(Relaxed) as usize);
        words[0].saturating_sub(words[1]) * size_of::<Slot>()
    }

    fn alone<R>(&self, host: &impl Host, act: impl FnOnce(&[AtomicU64]) -> R) -> R {
        let mut times = 0;
        while self.state[LOCK].swap(1, Acquire) != 0 {
            host.pause(times);
            times += 1;
        }
        let result = act(self.state);
        self.state[LOCK].store(0, Release);
        result
    }
}

/// Under the lock of the state.
fn add(word: &AtomicU64, change: i64) {
    word.store(word.load(Relaxed).wrapping_add_signed(change), Relaxed);
}
