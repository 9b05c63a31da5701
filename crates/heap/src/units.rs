//! Runs of whole segments: room for further segments and for blocks that fill
//! more than one.
//!
//! Ranges are used from the lowest address up. What is given back is kept, sorted
//! by address and joined with its neighbours; its memory goes back to the system,
//! the addresses stay ours.

use crate::Ground;
use crate::segment::SEGMENT;
use core::ops::Range;
use core::ptr::null_mut;

/// At least so much is asked for at once.
const STEP: usize = 8 * SEGMENT;

/// A free run, written at its own start.
#[derive(Debug)]
struct Free {
    next: *mut Free,
    units: usize,
}

/// The segments of the heap.
#[derive(Debug)]
pub(crate) struct Units {
    free: *mut Free,
    /// What was not mapped yet.
    ahead: Range<usize>,
}

impl Units {
    pub(crate) const fn new(range: Range<usize>) -> Self {
        Self { free: null_mut(), ahead: range }
    }

    /// Leaves out what lies before `start` and was not mapped yet.
    pub(crate) fn begin_at(&mut self, start: usize) {
        self.ahead.start = self.ahead.start.max(start);
    }

    /// `units` segments in a row. They read as zero but for the first words of the first.
    pub(crate) fn take(&mut self, units: usize, ground: &mut dyn Ground) -> Option<usize> {
        if let Some(found) = self.take_free(units) {
            return Some(found);
        }
        self.grow(units, ground)?;
        self.take_free(units)
    }

    /// The same where segment number `offset` of them lies at a multiple of `align` segments.
    pub(crate) fn take_aligned(
        &mut self,
        units: usize,
        offset: usize,
        align: usize,
        ground: &mut dyn Ground,
    ) -> Option<usize> {
        let total = units.checked_add(align - 1)?;
        let start = self.take(total, ground)?;
        let wanted = (start + offset * SEGMENT).next_multiple_of(align * SEGMENT) - offset * SEGMENT;
        let before = (wanted - start) / SEGMENT;
        // SAFETY: parts of what was just taken.
        unsafe {
            self.put(start, before);
            self.put(wanted + units * SEGMENT, total - units - before);
        }
        Some(wanted)
    }

    fn take_free(&mut self, units: usize) -> Option<usize> {
        let mut link = &raw mut self.free;
        // SAFETY: the list's own nodes.
        unsafe {
            while !(*link).is_null() {
                let run = *link;
                if (*run).units == units {
                    *link = (*run).next;
                    return Some(run.addr());
                }
                if (*run).units > units {
                    // From its end: the node stays where it is.
                    (*run).units -= units;
                    return Some(run.addr() + (*run).units * SEGMENT);
                }
                link = &raw mut (*run).next;
            }
        }
        None
    }

    fn grow(&mut self, units: usize, ground: &mut dyn Ground) -> Option<()> {
        let bytes = units.checked_mul(SEGMENT)?;
        for bytes in [bytes.max(STEP), bytes] {
            let start = self.ahead.start;
            if bytes <= self.ahead.len() && ground.map(start, bytes) {
                self.ahead.start += bytes;
                // SAFETY: fresh memory.
                unsafe { self.put(start, bytes / SEGMENT) };
                return Some(());
            }
        }
        None
    }

    /// Takes segments directly behind `end`, if they are free.
    pub(crate) fn extend(&mut self, end: usize, units: usize) -> bool {
        let mut link = &raw mut self.free;
        // SAFETY: the list's own nodes.
        unsafe {
            while !(*link).is_null() && (*link).addr() < end {
                link = &raw mut (**link).next;
            }
            let run = *link;
            if run.addr() != end || (*run).units < units {
                return false;
            }
            let (next, left) = ((*run).next, (*run).units - units);
            run.write(Free { next: null_mut(), units: 0 });
            *link = next;
            self.put(end + units * SEGMENT, left);
        }
        true
    }

    /// Gives segments back, without a word to the system.
    ///
    /// # Safety
    /// They were taken, and nobody uses them any more; all but the first page reads as zero.
    pub(crate) unsafe fn put(&mut self, start: usize, units: usize) {
        if units == 0 {
            return;
        }
        let mut link = &raw mut self.free;
        // SAFETY: the list's own nodes, and memory that is free from here on.
        unsafe {
            let mut before: *mut Free = null_mut();
            while !(*link).is_null() && (*link).addr() < start {
                before = *link;
                link = &raw mut (**link).next;
            }
            let mut run = start as *mut Free;
            run.write(Free { next: *link, units });
            *link = run;
            if !before.is_null() && before.addr() + (*before).units * SEGMENT == start {
                (*before).units += units;
                (*before).next = (*run).next;
                run.write(Free { next: null_mut(), units: 0 });
                run = before;
            }
            let next = (*run).next;
            if !next.is_null() && run.addr() + (*run).units * SEGMENT == next.addr() {
                (*run).units += (*next).units;
                (*run).next = (*next).next;
                next.write(Free { next: null_mut(), units: 0 });
            }
        }
    }
}
