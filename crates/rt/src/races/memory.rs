//! The memory of the history: address space of which only what is touched is needed.
//!
//! Apart from the state because here is how much there is, and how it is emptied in
//! a child.

use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use relive_accesses::Remembered;
use relive_race::history::{Cell, Host, Memory, STATE_WORDS, Slot};
use relive_race::{History, THREADS_MAX};
use relive_sys::syscall;

/// Cells, as a power of two: for 64 GiB of the program's memory, or for less where address space is scarce.
const CELLS: [u32; 3] = [30, 26, 22];
/// For each cell, slots of lists.
const SLOTS: usize = 2;

const MADV_DONTNEED: usize = 4;

/// What this process is to its history.
#[derive(Debug)]
pub(super) struct Here;

impl Host for Here {
    #[inline(always)]
    fn prefetch<T>(&self, place: &T) {
        fetch(core::ptr::from_ref(place).cast());
    }

    fn pause(&self, times: u32) {
        const LOOKS: u32 = 50;
        if times < LOOKS { core::hint::spin_loop() } else { syscall::sched_yield() }
    }
}

/// A line will be written soon.
#[inline(always)]
pub(super) fn fetch(line: *const u8) {
    // SAFETY: a hint, which touches nothing and never faults.
    unsafe { core::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags)) };
}

/// The parts of the memory, one behind the other, by their sizes in bytes.
struct Parts {
    cells: usize,
    used: usize,
    floor: usize,
    lists: usize,
    state: usize,
}

impl Parts {
    fn of(bits: u32) -> Self {
        let cells = 1 << bits;
        Self {
            cells: cells * size_of::<Cell>(),
            used: Memory::used_words(cells) * 8,
            floor: THREADS_MAX as usize * 8,
            lists: cells * SLOTS * size_of::<Slot>(),
            state: STATE_WORDS * 8,
        }
    }

    fn bytes(&self) -> usize {
        self.cells + self.used + self.floor + self.lists + self.state
    }

    /// # Safety
    /// At `start` are so many bytes, all zero, of nobody else and for good.
    unsafe fn memory(&self, start: NonNull<u8>) -> Memory<'static> {
        let mut at = start;
        let mut part = |bytes: usize| {
            let begin = at;
            // SAFETY: the parts lie within the memory, by the caller's promise, and end where it does.
            at = unsafe { at.add(bytes) };
            begin
        };
        let [cells, used, floor, lists, state] =
            [self.cells, self.used, self.floor, self.lists, self.state].map(&mut part);
        // SAFETY: each part is within the mapping and aligned, because cells come first and all else is of words; atomics
        // may be zero, and nobody has other references to them.
        unsafe {
            Memory {
                cells: slice(cells, self.cells),
                used: slice(used, self.used),
                floor: slice(floor, self.floor),
                lists: slice(lists, self.lists),
                state: state.cast::<[AtomicU64; STATE_WORDS]>().as_ref(),
            }
        }
    }
}

/// # Safety
/// There are values of this type in so many bytes, for good.
unsafe fn slice<T>(start: NonNull<u8>, bytes: usize) -> &'static [T] {
    // SAFETY: the caller's promise.
    unsafe { NonNull::slice_from_raw_parts(start.cast(), bytes / size_of::<T>()).as_ref() }
}

/// The memory of this process's history.
#[derive(Debug)]
pub(super) struct Mapped {
    start: usize,
    bytes: usize,
    /// Of the cells, which come first.
    cells: usize,
}

/// A history that remembers nothing, if there is address space for it.
pub(super) fn history() -> Option<(History<'static, Here>, Mapped)> {
    CELLS.into_iter().find_map(|bits| {
        let parts = Parts::of(bits);
        let start = syscall::mmap(parts.bytes(), syscall::MAP_PRIVATE_ANONYMOUS, -1, 0);
        let start = usize::try_from(start).ok()?;
        // SAFETY: the new mapping, which stays.
        let memory = unsafe { parts.memory(NonNull::new(start as *mut u8)?) };
        Some((History::new(memory, Here), Mapped { start, bytes: parts.bytes(), cells: parts.cells }))
    })
}

impl Mapped {
    /// Where the cells are: one for each line, of the same size.
    pub(super) fn cells(&self) -> Remembered {
        const { assert!(size_of::<Cell>() == 64, "a cell is as large as a line") };
        Remembered { start: self.start as u64, bytes: self.cells as u64 }
    }

    /// Makes all of it zero again.
    pub(super) fn clear(&self) {
        // SAFETY: the mapping of the history, private and anonymous: what is given back reads as zero.
        let given =
            unsafe { syscall::syscall6(syscall::number::MADVISE, self.start, self.bytes, MADV_DONTNEED, 0, 0, 0) };
        assert_eq!(given, 0, "memory that is mapped can be given back");
    }
}
