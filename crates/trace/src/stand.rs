//! Where a thread stood that a signal struck while it computed: registers, and
//! the memory that may tell one passage of that instruction from another.
//!
//! Apart because three sides read it: the recording writes it behind its threads'
//! backs, a replay compares with it, and the launcher says what of it counts. It
//! is a sequence of words; whoever reads it trusts no length in it.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// First word of a stand point.
pub const MAGIC: u64 = u64::from_le_bytes(*b"RLVSTND\x01");
/// General registers as `ucontext_t` has them: r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, flags.
pub const REGISTERS: usize = 18;
/// Index of `rbp` among them.
pub const RBP: usize = 10;
/// Index of `rcx`.
pub const RCX: usize = 14;
/// Index of `rdx`.
pub const RDX: usize = 12;
/// Index of `r11`.
pub const R11: usize = 3;
/// Index of `rax`.
pub const RAX: usize = 13;
/// Index of `rdi`.
pub const RDI: usize = 8;
/// Index of `rsi`.
pub const RSI: usize = 9;
/// Index of `rsp`.
pub const RSP: usize = 15;
/// Index of `rip`.
pub const RIP: usize = 16;
/// Index of the flags.
pub const FLAGS: usize = 17;
/// Words of the lower halves of the vector registers.
pub const VECTORS: usize = 32;
/// Word at which the vector registers stand.
pub const VECTORS_AT: usize = 1 + REGISTERS;
/// Word at which the windows begin: each an address, a number of words, and so many words.
pub const WINDOWS_AT: usize = VECTORS_AT + VECTORS;
/// Words of a stand point, at most.
pub const WORDS_MAX: usize = 8192;

/// A stand point, as far as its bounds were checked.
#[derive(Clone, Copy, Debug)]
pub struct Stand<'a>(&'a [u64]);

/// Memory as it was: its address, the word of the stand point at which it begins, and the words.
pub type Window<'a> = (u64, usize, &'a [u64]);

impl<'a> Stand<'a> {
    /// The stand point in these words, if they are one.
    pub fn new(words: &'a [u64]) -> Option<Self> {
        (words.len() >= WINDOWS_AT && words.len() <= WORDS_MAX && words[0] == MAGIC).then_some(Self(words))
    }

    /// A general register.
    pub fn register(&self, index: usize) -> u64 {
        self.0[1 + index]
    }

    /// The vector registers.
    pub fn vectors(&self) -> &'a [u64] {
        &self.0[VECTORS_AT..WINDOWS_AT]
    }

    /// The windows. What does not fit in ends them.
    pub fn windows(&self) -> impl Iterator<Item = Window<'a>> + use<'a> {
        let words = self.0;
        let mut at = WINDOWS_AT;
        core::iter::from_fn(move || {
            let (address, count) = (*words.get(at)?, *words.get(at + 1)?);
            let begin = at + 2;
            let window = words.get(begin..begin.checked_add(usize::try_from(count).ok()?)?)?;
            at = begin + window.len();
            Some((address, begin, window))
        })
    }

    /// Where in the stand point `length` bytes at `address` stand, in bytes.
    pub fn offset_of(&self, address: u64, length: u64) -> Option<usize> {
        self.windows().find_map(|(start, begin, words)| {
            let from = address.checked_sub(start)?;
            (from.checked_add(length)? <= words.len() as u64 * 8).then_some(begin * 8 + from as usize)
        })
    }

    /// Up to eight bytes that stand `offset` bytes from the beginning.
    pub fn bytes(&self, offset: usize, length: usize) -> Option<u64> {
        if !(1..=8).contains(&length) {
            return None;
        }
        let word = |index: usize| self.0.get(index).copied();
        let shift = offset % 8 * 8;
        let low = word(offset / 8)? >> shift;
        let both = if shift > 0 && offset % 8 + length > 8 { low | word(offset / 8 + 1)? << (64 - shift) } else { low };
        Some(both & mask(length))
    }
}

/// The lowest `length` bytes of a word.
pub fn mask(length: usize) -> u64 {
    if length >= 8 { u64::MAX } else { (1 << (length * 8)) - 1 }
}

/// Values of [`Survey::asks`].
pub mod asks {
    /// What counts of a stand point, and what runs in the place of what the entry takes away.
    pub const ALONE: u32 = 0;
    /// What counts, and where a jump may begin: other threads may be anywhere. `apart` says whether an instruction may
    /// begin at its last byte.
    pub const CROWDED: u32 = 1;
    /// Copies of instructions.
    pub const COPIES: u32 = 2;
}

/// Values of [`Survey::state`].
pub mod state {
    /// Nobody asks.
    pub const FREE: u32 = 0;
    /// Somebody writes down what it asks.
    pub const TAKEN: u32 = 1;
    /// The launcher is to answer.
    pub const ASKED: u32 = 2;
    /// It has.
    pub const ANSWERED: u32 = 3;
}

/// Changed code that the launcher must read as it was, at most.
pub const PATCHES: usize = 128;
/// Instructions that are copied at once, at most.
pub const COPIES: usize = 12;
/// Bytes of the copy of one, at most.
pub const COPIED_BYTES: usize = 40;
/// Bytes of code to run in the place of what the entry takes away, at most.
pub const CODE_BYTES: usize = 96;
/// Bytes of code to run before the comparison, at most.
pub const LEAD_BYTES: usize = 64;
/// Ranges of memory that count, at most.
pub const RANGES: usize = 1024;

/// What a replaying process asks about a place where a thread stood, and the launcher's answer: only the launcher can
/// read machine code.
#[derive(Debug)]
#[repr(C)]
pub struct Survey {
    /// One of [`state`]. Futex.
    pub state: AtomicU32,
    /// Who asks.
    pub pid: AtomicU32,
    /// Where its stand point is, and how many words it has.
    pub stand: [AtomicU64; 2],
    /// Where the code will be that is run in the place of what the entry takes away, and where that of the instructions
    /// before the one that is looked at.
    pub apart: [AtomicU64; 2],
    /// One of [`asks`].
    pub asks: AtomicU32,
    /// How many questions were answered.
    pub answered: AtomicU32,
    /// Changed code: address, length and what stood there.
    pub patches: [[AtomicU64; 3]; PATCHES],
    /// Instructions to copy: their places, and where the copies will be; 0 for none.
    pub copies: [[AtomicU64; 2]; COPIES],
    /// The copies' bytes, and how many; 0 if it can't be copied.
    pub copied: [[AtomicU64; COPIED_BYTES / 8]; COPIES],
    /// See `copied`.
    pub copied_bytes: [AtomicU64; COPIES],
    /// General registers that must be equal (bits 0 to 15), and vector registers (16 to 31).
    pub live: AtomicU64,
    /// Flags that must be equal.
    pub flags: AtomicU64,
    /// Bytes that a jump may take; 1 if only a trap fits, 0 if nothing does.
    pub room: AtomicU64,
    /// Bytes of `code`.
    pub code_bytes: AtomicU64,
    /// What to run in the place of what the entry takes away; it goes on behind that.
    pub code: [AtomicU64; CODE_BYTES / 8],
    /// Bytes that the entry stands before the instruction, and what to run in their place.
    pub lead: AtomicU64,
    /// Bytes of `lead_code`.
    pub lead_bytes: AtomicU64,
    /// What to run before the comparison.
    pub lead_code: [AtomicU64; LEAD_BYTES / 8],
    /// Used entries of `ranges`.
    pub range_count: AtomicU64,
    /// Memory that must be equal: its address; the offset of its bytes in the stand point, and their number << 32.
    pub ranges: [[AtomicU64; 2]; RANGES],
}

#[cfg(test)]
mod tests {
    use super::{MAGIC, RIP, Stand, WINDOWS_AT, WORDS_MAX};

    fn words(windows: &[u64]) -> Vec<u64> {
        let mut words = vec![0; WINDOWS_AT];
        words[0] = MAGIC;
        words[1 + RIP] = 77;
        words.extend_from_slice(windows);
        words
    }

    #[test]
    fn windows_are_found_by_address() {
        let words = words(&[0x1000, 2, 0x0807_0605_0403_0201, 0x1817_1615_1413_1211, 0x5000, 1, 9]);
        let stand = Stand::new(&words).unwrap();
        assert_eq!(stand.register(RIP), 77);
        let at = |address, length| stand.offset_of(address, length);
        assert_eq!(stand.bytes(at(0x1000, 8).unwrap(), 8), Some(0x0807_0605_0403_0201));
        assert_eq!(stand.bytes(at(0x1006, 4).unwrap(), 4), Some(0x1211_0807));
        assert_eq!(stand.bytes(at(0x5000, 2).unwrap(), 2), Some(9));
        assert_eq!((at(0x100C, 8), at(0xFFF, 1), at(u64::MAX, 8)), (None, None, None));
    }

    #[test]
    fn lengths_that_lie_end_it() {
        for window in [&[0x1000][..], &[0x1000, 3, 1, 2], &[0x1000, u64::MAX, 1], &[0x1000, u64::MAX - 60, 1]] {
            assert_eq!(Stand::new(&words(window)).unwrap().windows().count(), 0);
        }
        assert!(Stand::new(&words(&[])[1..]).is_none());
        assert!(Stand::new(&words(&vec![0; WORDS_MAX])).is_none());
        let words = words(&[]);
        let stand = Stand::new(&words).unwrap();
        assert_eq!((stand.bytes(WINDOWS_AT * 8, 1), stand.bytes(0, 0), stand.bytes(usize::MAX, 8)), (None, None, None));
    }
}
