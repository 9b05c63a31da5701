//! Memory that was given back before anybody had touched it.
//!
//! A free is a write of each byte, which its lines remember. A program that asks for a
//! gigabyte and uses a tenth of it would pay for all of it that way, with memory, too.
//! So of whole pages of which no line is remembered it is only kept which they are and
//! who freed them; a line that is touched later begins with that.
//!
//! Who frees says so first, and then looks whether a page has become used; who takes a
//! cell for a line marks its page as used first, and then looks here. A fence between
//! the two on either side: one of them sees the other.

use crate::epoch::Epoch;
use crate::lines::PAGE_LINES;
use alloc::collections::BTreeMap;
use core::ops::Range;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use relive_sys::lock::Lock;

/// Pages that were freed untouched.
#[derive(Debug, Default)]
pub(super) struct Untouched {
    /// Whether there may be any.
    some: AtomicBool,
    /// By the first of each run: its end, and who freed it.
    runs: Lock<BTreeMap<u64, (u64, Epoch)>>,
}

impl Untouched {
    /// A segment has freed these pages. `false`, and nothing is done, if some of them were freed before.
    pub(super) fn add(&self, pages: Range<u64>, by: Epoch) -> bool {
        let mut runs = self.runs.lock();
        self.some.store(true, Relaxed);
        let before = runs.range(..pages.end).next_back();
        if before.is_some_and(|(_, &(end, _))| end > pages.start) {
            return false;
        }
        runs.insert(pages.start, (pages.end, by));
        true
    }

    /// Who freed the page of this line.
    pub(super) fn of(&self, line: u64) -> Option<Epoch> {
        if !self.some.load(Relaxed) {
            return None;
        }
        let page = line / PAGE_LINES;
        let runs = self.runs.lock();
        let (_, &(end, by)) = runs.range(..=page).next_back()?;
        (page < end).then_some(by)
    }

    /// Nothing is known of these pages any more.
    pub(super) fn remove(&self, pages: Range<u64>) {
        if pages.is_empty() || !self.some.load(Relaxed) {
            return;
        }
        let mut runs = self.runs.lock();
        while let Some((&start, &(end, by))) = runs.range(..pages.end).next_back()
            && end > pages.start
        {
            runs.remove(&start);
            if end > pages.end {
                runs.insert(pages.end, (end, by));
            }
            if start < pages.start {
                runs.insert(start, (pages.start, by));
            }
        }
        self.some.store(!runs.is_empty(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::Untouched;
    use crate::epoch::Epoch;

    #[test]
    fn runs_are_cut_where_something_is_removed() {
        let (untouched, by) = (Untouched::default(), Epoch::new(1, 5));
        let at = |page: u64| untouched.of(page * 64 + 63);
        assert!(untouched.add(10..20, by) && untouched.add(30..40, by));
        assert!(!untouched.add(19..21, by) && !untouched.add(5..31, by));
        assert_eq!([9, 10, 19, 20, 30].map(|page| at(page).is_some()), [false, true, true, false, true]);
        untouched.remove(15..16);
        untouched.remove(18..35);
        let left: std::vec::Vec<u64> = (0..50).filter(|&page| at(page).is_some()).collect();
        assert_eq!(left, [10, 11, 12, 13, 14, 16, 17, 35, 36, 37, 38, 39]);
        untouched.remove(0..100);
        assert!((0..50).all(|page| at(page).is_none()) && untouched.add(0..1, by));
    }
}
