//! What synchronisation variables hand over in the second pass, and what becomes one.
//!
//! Apart from the accesses that race because this only moves clocks.

use super::Second;
use core::ops::Range;
use relive_race::{Clocks, pieces, ranges};

impl Second {
    /// What the thread's access raced with counts as ordered, and so do its bytes, where the next recording will order them.
    pub(super) fn order(&mut self, me: u32, clocks: &Clocks) {
        for met in core::mem::take(&mut self.to_order) {
            ranges(met.line, met.bytes).for_each(|range| self.make_variable(&range));
            // What the segment did has been seen access by access.
            drop(clocks.learn(me, &met.clocks[0]));
        }
    }

    /// A range is a synchronisation variable from here on.
    pub(super) fn make_variable(&mut self, range: &Range<u64>) {
        for (line, bytes) in pieces(range.clone()) {
            self.detail.watch(line, bytes & self.detail.watched(line), bytes);
        }
        self.variables.insert(range.clone());
        self.worn.forget();
    }

    /// Lets the thread know what the variables told it that it has read.
    ///
    /// Accesses come here before they happen. A release may well be known too early: nobody sees the store before it
    /// happens. But what a load sees may be stored between its coming here and its happening; so it acquires as late as
    /// it can, with the thread's next step.
    pub(in crate::races) fn settle(&mut self, me: u32, clocks: &Clocks) {
        let Some(past) = self.threads.get_mut(&me) else { return };
        for range in past.read.drain(..) {
            // What the segment did has been seen access by access: nothing is to be handed over.
            drop(self.variables.load(clocks, me, range));
        }
    }
}
