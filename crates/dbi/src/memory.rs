//! The memory that a tool has of each thread: words in its area, which emitted code
//! reaches through gs, and what it has reserved before and behind the area.
//!
//! Apart because it is the one place where a tool's own code touches that memory: a
//! tool need not be unsafe for it.

use crate::area::{AREA_BYTES, TOOL_WORDS, WORDS};
use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use core::marker::PhantomData;
use core::ptr::NonNull;

/// How much memory a tool wants around the area of each thread. It is reserved, readable, writable and zero; what is not
/// touched need not be committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserve {
    /// Bytes before the area, a multiple of 64.
    pub before: usize,
    /// Bytes behind its [`AREA_BYTES`].
    pub behind: usize,
}

/// The tool's memory of one thread. Offsets are in bytes from the address that gs holds.
#[derive(Debug)]
pub struct ToolMemory<'a> {
    area: NonNull<u8>,
    reserve: Reserve,
    alone: PhantomData<&'a mut u8>,
}

/// The tool's memory of a thread that may be writing it, for others to look at. What they find may be an access old.
#[derive(Clone, Copy, Debug)]
pub struct Elsewhere {
    area: NonNull<u8>,
    reserve: Reserve,
}

// SAFETY: it stays for good, and no access to it is more than a word.
unsafe impl Send for Elsewhere {}

impl Elsewhere {
    /// # Safety
    /// `area` is a thread's area with this reserve around it, of a process that is translated as a whole, whose areas stay.
    pub(crate) unsafe fn new(area: NonNull<u8>, reserve: Reserve) -> Self {
        Self { area, reserve }
    }

    /// The address that gs holds in that thread.
    pub fn address(&self) -> u64 {
        self.area.as_ptr().addr() as u64
    }

    /// As [`ToolMemory::load`].
    ///
    /// # Panics
    /// As that.
    pub fn load(&self, offset: isize) -> u64 {
        // SAFETY: an aligned word of memory that is mapped, by the contract of `new`; its thread may write it meanwhile.
        unsafe { place(self.area, self.reserve, offset).read_volatile() }
    }

    /// Makes the word at `offset` zero. Its thread may be about to store what it made of the word before.
    ///
    /// # Panics
    /// As [`Elsewhere::load`].
    pub fn clear(&self, offset: isize) {
        // SAFETY: as in `load`; the thread's code takes any value of a word for granted, zero among them.
        unsafe { place(self.area, self.reserve, offset).write_volatile(0) }
    }

    /// As [`ToolMemory::word`].
    ///
    /// # Panics
    /// As that.
    pub fn word(&self, index: usize) -> u64 {
        // SAFETY: as in `load`.
        unsafe { word_place(self.area, index).read_volatile() }
    }
}

/// Where the word at `offset` in the reserve is. The area has it by the contracts of those who call.
#[inline]
fn place(area: NonNull<u8>, reserve: Reserve, offset: isize) -> NonNull<u64> {
    let before = offset < 0 && offset.unsigned_abs() <= reserve.before;
    let behind = offset >= AREA_BYTES as isize && offset as usize + 8 <= AREA_BYTES + reserve.behind;
    assert!((before || behind) && offset % 8 == 0, "a tool's word lies in what it has reserved");
    // SAFETY: just checked against the reserve, which is mapped with the area.
    unsafe { area.byte_offset(offset).cast() }
}

#[inline]
fn word_place(area: NonNull<u8>, index: usize) -> NonNull<u64> {
    assert!(index < TOOL_WORDS, "a tool has 72 words");
    // SAFETY: the words are part of the area.
    unsafe { area.add(WORDS + index * 8).cast() }
}

impl ToolMemory<'_> {
    /// # Safety
    /// `area` is a thread's area with this reserve around it, and nobody else uses the tool's part of it meanwhile.
    pub(crate) unsafe fn new(area: NonNull<u8>, reserve: Reserve) -> Self {
        Self { area, reserve, alone: PhantomData }
    }

    /// The address that gs holds.
    pub fn address(&self) -> u64 {
        self.area.as_ptr().addr() as u64
    }

    #[inline]
    fn place(&self, offset: isize) -> NonNull<u64> {
        place(self.area, self.reserve, offset)
    }

    /// The word at `offset` in the reserve.
    ///
    /// # Panics
    /// If the offset is not in the reserve, or no multiple of 8.
    #[inline]
    pub fn load(&self, offset: isize) -> u64 {
        // SAFETY: the place is in the tool's memory, which is this borrow's.
        unsafe { self.place(offset).read() }
    }

    /// Says that the word at `offset` will soon be needed. Nothing happens where there is none.
    #[inline]
    pub fn prefetch(&self, offset: isize) {
        let place = self.area.as_ptr().wrapping_byte_offset(offset);
        // SAFETY: each processor for x86-64 has the instruction; it faults nowhere and changes nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast_const().cast()) };
    }

    /// Stores the word at `offset` in the reserve.
    ///
    /// # Panics
    /// If the offset is not in the reserve, or no multiple of 8.
    #[inline]
    pub fn store(&mut self, offset: isize, value: u64) {
        // SAFETY: as in `load`.
        unsafe { self.place(offset).write(value) };
    }

    /// The tool's word `index`, as [`tool_word`](crate::tool_word) has it in emitted code.
    ///
    /// # Panics
    /// If there is no such word.
    #[inline]
    pub fn word(&self, index: usize) -> u64 {
        // SAFETY: as in `load`.
        unsafe { word_place(self.area, index).read() }
    }

    /// Stores the tool's word `index`.
    ///
    /// # Panics
    /// If there is no such word.
    #[inline]
    pub fn set_word(&mut self, index: usize, value: u64) {
        // SAFETY: as in `load`.
        unsafe { word_place(self.area, index).write(value) };
    }
}
