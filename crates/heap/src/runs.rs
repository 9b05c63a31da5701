//! Runs of pages within segments: best fit, joined with free neighbours.
//!
//! Free runs stand in lists by length, the last freed first; a bit for each list
//! says whether it has one. Freed pages keep what they hold until there are many
//! of them, then their memory goes back to the system.

use crate::Ground;
use crate::segment::{
    FIRST_PAGE, Kind, PAGE, PAGES, Page, SEGMENT, Segment, USABLE, Use, address_of, page, page_index,
};
use crate::units::Units;
use core::ptr::null_mut;

/// Free pages that may hold old data; what is freed beyond goes back to the system.
const KEPT_PAGES: usize = (32 << 20) / PAGE;
/// Runs shorter than this are kept: giving them back costs more than it brings.
const GIVEN_BACK_PAGES: usize = 16;
const WORDS: usize = PAGES.div_ceil(64);

/// The free runs of all segments.
#[derive(Debug)]
pub(crate) struct Runs {
    lists: [*mut Page; PAGES],
    filled: [u64; WORDS],
    /// Free pages that may hold old data.
    dirty: usize,
    /// Segments of which nothing is in use.
    empty: usize,
}

/// A run that was given out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) address: usize,
    /// It reads as zero.
    pub(crate) clean: bool,
}

impl Runs {
    pub(crate) const fn new() -> Self {
        Self { lists: [null_mut(); PAGES], filled: [0; WORDS], dirty: 0, empty: 0 }
    }

    /// `count` pages in a row, the first at a multiple of `align` pages.
    pub(crate) fn take(
        &mut self,
        count: usize,
        align: usize,
        units: &mut Units,
        ground: &mut dyn Ground,
    ) -> Option<Run> {
        let wanted = count + align - 1;
        if wanted > USABLE {
            return None;
        }
        let length = if let Some(length) = self.shortest(wanted) {
            length
        } else {
            self.add_segment(units, ground)?;
            USABLE
        };
        // SAFETY: a run of that list.
        unsafe {
            let first = self.lists[length];
            let clean = (*first).clean;
            if length == USABLE {
                self.empty -= 1;
            }
            self.unlink(first);
            let start = address_of(first);
            let address = start.next_multiple_of(align * PAGE);
            let before = (address - start) / PAGE;
            self.set_free(start, before, clean);
            self.set_free(address + count * PAGE, length - before - count, clean);
            Some(Run { address, clean })
        }
    }

    /// Says what a run that was taken is used for.
    ///
    /// # Safety
    /// The run must have been taken.
    pub(crate) unsafe fn mark(address: usize, count: usize, used: Use, class: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let first = page(address);
            let marked = if used == Use::Small { count } else { 1 };
            for index in 0..marked {
                let entry = first.add(index);
                ((*entry).used, (*entry).class) = (used, class as u8);
            }
            (*first).length = count as u16;
        }
    }

    /// Gives a run back.
    ///
    /// # Safety
    /// It was taken, and nobody uses it any more.
    pub(crate) unsafe fn put(&mut self, address: usize, count: usize, units: &mut Units, ground: &mut dyn Ground) {
        let (mut start, mut length, mut clean) = (address, count, false);
        let index = page_index(address);
        // SAFETY: the caller's promise; what the tables tell of the neighbours.
        unsafe {
            let first = page(address);
            if index > FIRST_PAGE && (*first.sub(1)).used == Use::Free {
                let more = (*first.sub(1)).length as usize;
                start -= more * PAGE;
                length += more;
                self.unlink(first.sub(more));
            }
            if index + count < PAGES && (*first.add(count)).used == Use::Free {
                length += (*first.add(count)).length as usize;
                self.unlink(first.add(count));
            }
            (*first).used = Use::None;
        }
        if length >= GIVEN_BACK_PAGES && self.dirty + length > KEPT_PAGES {
            ground.discard(start, length * PAGE);
            clean = true;
        }
        // SAFETY: the run that was put together.
        unsafe { self.set_free(start, length, clean) };
        if length == USABLE {
            self.empty += 1;
            if self.empty > 1 {
                // SAFETY: nothing of the segment is in use.
                unsafe { self.give_back_segment(start, units, ground) };
            }
        }
    }

    /// Makes a run longer if what lies behind it is free.
    ///
    /// # Safety
    /// It must be a run that was taken.
    pub(crate) unsafe fn extend(&mut self, address: usize, count: usize, wanted: usize) -> bool {
        if page_index(address) + wanted > PAGES {
            return false;
        }
        // SAFETY: the caller's promise; what the tables tell of the neighbour.
        unsafe {
            let behind = page(address).add(count);
            let free = (*behind).length as usize;
            if (*behind).used != Use::Free || count + free < wanted {
                return false;
            }
            let clean = (*behind).clean;
            self.unlink(behind);
            self.set_free(address + wanted * PAGE, count + free - wanted, clean);
        }
        true
    }

    /// The length of the shortest free runs of at least `count` pages.
    fn shortest(&self, count: usize) -> Option<usize> {
        let mut word = count / 64;
        let mut bits = self.filled[word] & (u64::MAX << (count % 64));
        while bits == 0 {
            word += 1;
            bits = *self.filled.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    fn add_segment(&mut self, units: &mut Units, ground: &mut dyn Ground) -> Option<()> {
        let start = units.take(1, ground)?;
        // SAFETY: a segment of our own whose table reads as zero but for the words that are set here.
        unsafe {
            let segment = start as *mut Segment;
            (*segment).set_kind(Kind::Pages);
            (*segment).units = 0;
            self.set_free(start + FIRST_PAGE * PAGE, USABLE, true);
        }
        self.empty += 1;
        Some(())
    }

    unsafe fn give_back_segment(&mut self, first: usize, units: &mut Units, ground: &mut dyn Ground) {
        let start = first & !(SEGMENT - 1);
        // SAFETY: the caller's promise.
        unsafe {
            self.unlink(page(first));
            ground.discard(start, SEGMENT);
            units.put(start, 1);
        }
        self.empty -= 1;
    }

    unsafe fn set_free(&mut self, address: usize, count: usize, clean: bool) {
        if count == 0 {
            return;
        }
        // SAFETY: the caller's promise: a run that nobody uses.
        unsafe {
            let first = page(address);
            let last = first.add(count - 1);
            ((*last).used, (*last).length) = (Use::Free, count as u16);
            let next = self.lists[count];
            first.write(Page { used: Use::Free, class: 0, clean, length: count as u16, next, previous: null_mut() });
            if !next.is_null() {
                (*next).previous = first;
            }
            self.lists[count] = first;
        }
        self.filled[count / 64] |= 1 << (count % 64);
        if !clean {
            self.dirty += count;
        }
    }

    /// Takes a free run off its list; its pages belong to nothing.
    unsafe fn unlink(&mut self, first: *mut Page) {
        // SAFETY: the caller's promise: the first entry of a free run.
        unsafe {
            let Page { length, next, previous, clean, .. } = *first;
            let count = length as usize;
            if previous.is_null() {
                self.lists[count] = next;
            } else {
                (*previous).next = next;
            }
            if !next.is_null() {
                (*next).previous = previous;
            }
            if self.lists[count].is_null() {
                self.filled[count / 64] &= !(1 << (count % 64));
            }
            if !clean {
                self.dirty -= count;
            }
            (*first).used = Use::None;
            (*first.add(count - 1)).used = Use::None;
        }
    }
}
