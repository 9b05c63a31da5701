//! Memory that changes hands: given back, and given out again.
//!
//! Apart from the check of segments because it works on ranges, not lines.

use super::entry::Entry;
use super::spill::Spill;
use super::{History, Page, With, visit};
use crate::clock::Clock;
use crate::finding::Race;
use crate::lines::{LINE, PAGE_LINES, pieces};
use alloc::boxed::Box;
use core::ops::Range;

const PAGE: u64 = LINE * PAGE_LINES;

impl History {
    /// A segment gives a range of memory back: a write of it all, after which its bytes are free until they are
    /// [fresh](History::fresh). An access that nothing orders with it is a race with the free, one that comes after
    /// it a use after free.
    ///
    /// Whatever the thread did to the range before must have been handed over. The range must be of this shard
    /// ([`by_shard`](crate::by_shard)).
    pub fn free(&mut self, clock: &Clock, range: Range<u64>, report: &mut impl FnMut(Race)) {
        for (line, bytes) in pieces(range) {
            let page =
                self.pages.entry(line / PAGE_LINES).or_insert_with(|| Box::new([Entry::EMPTY; PAGE_LINES as usize]));
            let slot = &mut page[(line % PAGE_LINES) as usize];
            let with = With { newer: Entry::free(clock.epoch(), bytes), clock, floor: &self.floor, line };
            visit(slot, &mut self.spill, &with, report);
        }
    }

    /// Forgets all about a range of memory: a new block, a new stack, a new mapping, or one that is gone. The range may
    /// reach beyond this shard.
    pub fn fresh(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let numbers = range.start / PAGE..(range.end - 1) / PAGE + 1;
        let Self { pages, spill, .. } = self;
        if numbers.end - numbers.start > pages.len() as u64 {
            pages.retain(|&number, page| !numbers.contains(&number) || !fresh_page(page, number, &range, spill));
            return;
        }
        for number in numbers {
            if pages.get_mut(&number).is_some_and(|page| fresh_page(page, number, &range, spill)) {
                pages.remove(&number);
            }
        }
    }

    /// The bytes of a line that are free.
    pub fn freed(&mut self, line: u64) -> u64 {
        let Some(page) = self.pages.get(&(line / PAGE_LINES)) else { return 0 };
        let slot = &page[(line % PAGE_LINES) as usize];
        let entries = if slot.is_spilled() { &*self.spill.list(slot) } else { core::slice::from_ref(slot) };
        entries.iter().filter(|entry| entry.is_free()).fold(0, |freed, entry| freed | entry.written)
    }
}

/// Forgets what of a page lies in a range. `true` if that was all of the page.
fn fresh_page(page: &mut Page, number: u64, range: &Range<u64>, spill: &mut Spill) -> bool {
    let start = number * PAGE;
    let end = start.saturating_add(PAGE);
    for (line, bytes) in pieces(range.start.max(start)..range.end.min(end)) {
        let slot = &mut page[(line % PAGE_LINES) as usize];
        let keep = |entry: &mut Entry| {
            entry.forget(bytes);
            !entry.is_gone()
        };
        if slot.is_spilled() {
            *slot = spill.retain(slot, keep);
        } else if !slot.is_empty() && !keep(slot) {
            *slot = Entry::EMPTY;
        }
    }
    range.start <= start && end <= range.end
}
