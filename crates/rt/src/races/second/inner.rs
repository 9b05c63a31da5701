//! What libraries do for themselves.
//!
//! Apart because what is told of it is the launcher's to decide; here it only must not
//! stand for what the program does.

use super::told::Met;
use super::{Record, Second, stacks};
use crate::translation;

impl Record {
    /// Whether a function of the C runtime did it that another one of the runtime has called: most of those that count
    /// have nothing on the stack but the address to which they return.
    pub(super) fn is_inner(&self) -> bool {
        let [caller, instruction] = [stacks::top(&self.stack), Some(self.stack[0])];
        [instruction, caller].iter().all(|code| code.is_some_and(translation::is_of_runtime))
    }
}

impl Second {
    /// Whether OpenMP's runtime races with itself in memory of its own. That is told to nobody, so that what the program
    /// does behind it is no consequence.
    pub(super) fn is_of_openmp(&self, met: &Met) -> bool {
        let accesses = met.records.iter().all(|record| {
            // It may let the C library copy or clear.
            let by = self.records.get(record).and_then(|Record { stack, .. }| {
                if translation::is_of_runtime(stack[0]) { stacks::top(stack) } else { Some(stack[0]) }
            });
            by.is_some_and(translation::is_of_openmp)
        });
        let allocated = || self.blocks.of(met.address()).and_then(|(_, block)| stacks::caller(&block.allocated.stack));
        accesses && allocated().is_some_and(translation::is_of_openmp)
    }
}
