//! What the first pass tells of synchronisation variables.
//!
//! Apart from the state because none of this moves a clock.

use super::State;
use alloc::vec::Vec;
use core::ops::Range;
use relive_race::pieces;
use relive_trace::races::word;

impl State {
    /// Threads wait at a range by the kernel.
    pub(in crate::races) fn waited(&self, me: u32, range: &Range<u64>) {
        let _within = self.passage.enter(me);
        self.gather(|found| self.variable(word::WAITED, range, found));
    }

    /// A locked instruction touched a range, or threads wait there: what the launcher is to be told of it, as `how` it is known.
    pub(super) fn variable(&self, how: u64, range: &Range<u64>, words: &mut Vec<u64>) {
        let mut found = self.found.lock();
        for (line, bytes) in pieces(range.clone()) {
            if found.variables.insert((how, line, bytes)) {
                words.extend([how, line, bytes]);
            }
        }
    }
}
