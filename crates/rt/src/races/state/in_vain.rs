//! What a thread that waits in vain looks at.
//!
//! Its log has all that it did since it last synchronised, and before it waited it may
//! have computed for long: whoever watches all of that has later recordings order most
//! of the program. So its log is made to show what it does from here on, which is its
//! loop; what it had shown is looked through before.
//!
//! Apart from the state because this changes what another thread has noted of itself.

use super::State;
use crate::races::Pass;
use crate::races::ending::{Place, pause};
use crate::{runtime, translation};
use alloc::vec::Vec;
use relive_race::{Clock, Line};
use relive_sys::proc;

/// A loop that waits is gone through often in that time.
const COMPUTED_NANOSECONDS: u64 = 20_000_000;
/// A thread has had the processor for that long by then, or waits for it in vain, too.
const PAUSE_MILLISECONDS: u32 = 5;
const PAUSES: u32 = 200;

/// What a thread did before it went on in its loop.
pub(super) struct Before {
    clock: Clock,
    lines: Vec<Line>,
}

impl Before {
    pub(super) fn is_of(&self, thread: u32) -> bool {
        self.clock.epoch().thread() == thread
    }
}

impl State {
    /// Has the thread that waits in vain show its loop alone, if it is known which one does. What it had shown.
    pub(super) fn show_loop(&self) -> Option<Before> {
        let index = runtime::session().in_vain.checked_sub(1).filter(|_| self.pass == Pass::First)?;
        let index = u32::try_from(index).ok()?;
        let Place { tid, memory } = self.ending.place_of(index)?;
        let clock = self.clocks.current(index);
        let mut lines = Vec::new();
        translation::look(&memory, |some| lines.extend_from_slice(some), |_| {});
        translation::forget(&memory);
        let computed = proc::computed(tid);
        for _ in 0..PAUSES {
            pause(PAUSE_MILLISECONDS);
            if proc::computed(tid).saturating_sub(computed) >= COMPUTED_NANOSECONDS {
                break;
            }
        }
        Some(Before { clock, lines })
    }

    /// Looks for races in what the thread did before, if it is in that segment still: else it has handed that over.
    pub(super) fn look_through(&self, before: Option<Before>, clock: &Clock) {
        if let (Some(Before { clock: before, lines }), Some((history, _))) = (before, &self.history)
            && before.epoch() == clock.epoch()
        {
            self.tally.touched(clock, &lines);
            self.gather(|found| history.check(clock, &lines, &mut |race| self.tell(race, found)));
        }
    }
}
