//! Memory that changes hands: given back, and given out again.
//!
//! Apart from the check of segments because it works on ranges, not lines.

use super::cell::Held;
use super::entry::Entry;
use super::{History, Host, Lasts};
use crate::clock::Clock;
use crate::finding::Race;
use crate::lines::{LINE, PAGE_LINES, pieces};
use core::ops::Range;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::fence;

/// Bytes of a page.
const PAGE: u64 = PAGE_LINES * LINE;
/// Lines of a range of which each is looked for, even where it need not be at home.
const EACH: u64 = 1 << 12;

impl<H: Host> History<'_, H> {
    /// A segment gives a range of memory back: a write of it all, after which its bytes are free until they are
    /// [fresh](History::fresh). An access that nothing orders with it is a race with the free, one that comes after
    /// it a use after free.
    ///
    /// Whatever the thread did to the range before must have been handed over.
    pub fn free(&self, clock: &Clock, range: Range<u64>, report: &mut impl FnMut(Race)) {
        let whole = whole_pages(&range);
        let (mut from, mut page) = (range.start, whole.start);
        while page < whole.end {
            if self.memory.has_page(page * PAGE_LINES) {
                page += 1;
                continue;
            }
            let start = page;
            while page < whole.end && !self.memory.has_page(page * PAGE_LINES) {
                page += 1;
            }
            if self.untouched.add(start..page, clock.epoch()) {
                self.free_each(clock, from..start * PAGE, report);
                fence(SeqCst);
                for used in (start..page).filter(|used| self.memory.has_page(used * PAGE_LINES)) {
                    self.free_each(clock, used * PAGE..(used + 1) * PAGE, report);
                }
                from = page * PAGE;
            }
        }
        self.free_each(clock, from..range.end, report);
    }

    /// The same, line by line.
    fn free_each(&self, clock: &Clock, range: Range<u64>, report: &mut impl FnMut(Race)) {
        for (line, bytes) in pieces(range) {
            self.visit(clock, line, Entry::free(clock.epoch(), bytes), &mut Lasts::Never, report);
        }
    }

    /// Of pages that were freed untouched and lie in the range, nothing is known any more. Where one lies in it in part, each
    /// of its lines remembers the free from here on.
    fn forget_untouched(&self, range: &Range<u64>) {
        let ends = [range.start, range.end - 1].map(|byte| byte / PAGE);
        for page in ends.into_iter().filter(|page| self.untouched.of(page * PAGE_LINES).is_some()) {
            for line in page * PAGE_LINES..(page + 1) * PAGE_LINES {
                drop(self.memory.claim(line, &self.untouched, &self.host));
            }
        }
        self.untouched.remove(ends[0]..ends[1] + 1);
    }

    /// Forgets all about a range of memory: a new block, a new stack, a new mapping, or one that is gone.
    pub fn fresh(&self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        self.forget_untouched(&range);
        let (first, last) = (range.start / LINE, (range.end - 1) / LINE);
        let everywhere = last - first >= self.memory.cells.len() as u64;
        if everywhere || !self.memory.all_at_home() && last - first > EACH {
            self.forget_wherever(&range);
            return;
        }
        for page in first / PAGE_LINES..=last / PAGE_LINES {
            let start = page * PAGE_LINES;
            if self.memory.all_at_home() && !self.memory.has_page(start) {
                continue;
            }
            for line in start.max(first)..(start + PAGE_LINES).min(last + 1) {
                if let Some(cell) = self.memory.find(line, &self.host) {
                    self.forget(cell, line, &range);
                }
            }
        }
    }

    fn forget_wherever(&self, range: &Range<u64>) {
        for cell in self.memory.used_pages().flatten() {
            let cell = cell.lock(&self.host);
            if let Some(line) = cell.line() {
                self.forget(cell, line, range);
            }
        }
    }

    /// Forgets what of a line lies in a range.
    fn forget(&self, mut cell: Held<'_>, line: u64, range: &Range<u64>) {
        let (start, end) = (line * LINE, (line * LINE).saturating_add(LINE));
        let bytes = pieces(range.start.max(start)..range.end.min(end)).fold(0, |all, (_, bytes)| all | bytes);
        if bytes == 0 {
            return;
        }
        if cell.is_lasting() {
            let some = self.lasting.fresh(line, bytes);
            cell.set_lasting(some);
        }
        let mut kept = 0;
        for index in 0..cell.count() {
            let mut entry = self.entry(&cell, index).load();
            entry.forget(bytes);
            if !entry.is_gone() {
                self.entry(&cell, kept).store(entry);
                kept += 1;
            }
        }
        self.keep(&mut cell, kept);
    }

    /// The bytes of a line that are free.
    pub fn freed(&self, line: u64) -> u64 {
        let Some(cell) = self.memory.find(line, &self.host) else {
            return self.untouched.of(line).map_or(0, |_| u64::MAX);
        };
        let entries = (0..cell.count()).map(|index| self.entry(&cell, index).load());
        entries.filter(|entry| entry.is_free()).fold(0, |freed, entry| freed | entry.written)
    }
}

/// The pages that lie in a range from their first byte to their last.
fn whole_pages(range: &Range<u64>) -> Range<u64> {
    range.start.div_ceil(PAGE)..range.end / PAGE
}
