//! What threads look at that wait in vain.
//!
//! The log of such a thread has all that it did since it last synchronised, and before it
//! waited it may have computed for long: whoever watches all of that has later recordings
//! order most of the program. So its log is made to show what it does from here on, which
//! is its loop; what it had shown is looked through before. Others may wait in the same
//! way, and would be the next ones to be found: each whose log shows a few lines only from
//! here on is told of, too.
//!
//! No reads last where any of this is done (`taking.rs`).
//!
//! Apart from the state because this changes what other threads have noted of themselves.

use super::State;
use crate::races::Pass;
use crate::races::ending::pause;
use crate::{runtime, translation};
use alloc::vec::Vec;
use relive_race::{Clock, Line};
use relive_sys::proc;

/// A loop that waits is gone through often in that time.
const COMPUTED_NANOSECONDS: u64 = 20_000_000;
/// A thread has had the processor for that long by then, or waits for it in vain, too.
const PAUSE_MILLISECONDS: u32 = 5;
const PAUSES: u32 = 200;
/// Whoever does nothing but look touches no more lines.
const FEW: usize = 4;

/// What a thread did before it went on in its loop.
pub(super) struct Before {
    clock: Clock,
    lines: Vec<Line>,
}

impl State {
    /// Has threads show what they do from here on alone, if it is known which of them waits in vain, and says of which it
    /// may be told. What they had shown.
    pub(super) fn show_loops(&self, me: u32) -> Vec<Before> {
        let in_vain = runtime::session().in_vain.checked_sub(1).and_then(|index| u32::try_from(index).ok());
        let Some(in_vain) = in_vain.filter(|_| self.pass == Pass::First) else { return Vec::new() };
        let others = self.ending.others(me);
        let shown = others.iter().map(|(index, place)| {
            let clock = self.clocks.current(*index);
            let mut lines = Vec::new();
            translation::look(&place.memory, &[], |some| lines.extend_from_slice(some), |_| {});
            translation::forget(&place.memory);
            Before { clock, lines }
        });
        let shown = shown.collect();
        if let Some((_, place)) = others.iter().find(|(index, _)| *index == in_vain) {
            let computed = proc::computed(place.tid);
            let is_through = || proc::computed(place.tid).saturating_sub(computed) >= COMPUTED_NANOSECONDS;
            (0..PAUSES).take_while(|_| !is_through()).for_each(|_| pause(PAUSE_MILLISECONDS));
        }
        for (index, place) in &others {
            let mut count = 0;
            let reads = |line: &&Line| line.read != 0;
            translation::look(&place.memory, &[], |some| count += some.iter().filter(reads).count(), |_| {});
            if *index == in_vain || (1..=FEW).contains(&count) {
                self.open.loops(*index);
            }
        }
        shown
    }

    /// Looks for races in what the thread with this clock did before, if it is in that segment still: else it has handed that
    /// over.
    pub(super) fn look_through(&self, shown: &[Before], clock: &Clock) {
        if let Some(before) = shown.iter().find(|before| before.clock.epoch() == clock.epoch())
            && let Some((history, _)) = &self.history
        {
            self.tally.touched(clock, &before.lines);
            self.gather(|found| history.check(clock, &before.lines, &mut |race| self.tell(race, found)));
        }
    }
}
