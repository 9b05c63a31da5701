//! What `RecPlay` would have stored and compared in this replay: the figures of its
//! table 2, where the session wants them.
//!
//! Apart from the histories, which find the races and know no segments that wait for
//! others. Here each segment is put together, ends where its thread's clock moves, and
//! goes to the counter with the bytes that its sets of locations would take. Clocks are
//! looked at when every segment that has ended was told of: threads act in turn for it.

use super::ledger::Ledger;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use relive_race::recplay::{Figures, Recorder};
use relive_race::{Clock, Clocks, Line};
use relive_sys::lock::{Guard, Lock};
use relive_trace::races::word;

/// The counter of this process, if there is one.
pub(super) struct Tally {
    counter: Option<Lock<Counter>>,
    /// Held by the thread that acts.
    acts: Lock<()>,
}

#[derive(Default)]
pub(super) struct Counter {
    recorder: Recorder,
    /// What the present segment of each thread touched: bytes read and written, by lines.
    open: BTreeMap<u32, BTreeMap<u64, (u64, u64)>>,
}

impl Tally {
    pub(super) fn new(wanted: bool) -> Self {
        Self { counter: wanted.then(|| Lock::new(Counter::default())), acts: Lock::new(()) }
    }

    /// Until this is dropped no other thread acts, if anything is counted: what has ended has been told of then.
    #[inline]
    pub(super) fn one_act(&self) -> Option<Guard<'_, ()>> {
        self.counter.as_ref().map(|_| self.acts.lock())
    }

    /// Lines of the segment with this clock.
    pub(super) fn touched(&self, clock: &Clock, lines: &[Line]) {
        let Some(counter) = &self.counter else { return };
        let mut counter = counter.lock();
        let open = counter.open.entry(clock.epoch().thread()).or_default();
        for line in lines {
            let (read, written) = open.entry(line.number).or_default();
            *read |= line.read;
            *written |= line.written;
        }
    }

    /// The segment with this clock, which is asked for if anything is counted, has ended, or does with what comes next.
    #[inline]
    pub(super) fn ends(&self, clock: impl FnOnce() -> Clock) {
        let Some(counter) = &self.counter else { return };
        let (clock, mut counter) = (clock(), counter.lock());
        let touched = counter.open.remove(&clock.epoch().thread()).unwrap_or_default();
        let line = |(number, (read, written))| Line { number, read, written };
        let lines: Vec<Line> = touched.into_iter().map(line).collect();
        counter.recorder.end(&clock, &lines);
    }

    /// Looks at the clocks of all threads. Every segment that has ended must have been told of.
    pub(super) fn snoop(&self, clocks: &Clocks) {
        if let Some(counter) = &self.counter {
            counter.lock().recorder.snoop(clocks);
        }
    }

    /// Tells the launcher, at the end of the process.
    pub(super) fn tell(&self, ledger: &Ledger) {
        let Some(counter) = &self.counter else { return };
        let counter = counter.lock();
        for (way, figures) in [(word::EXACT, counter.recorder.exact()), (word::SNOOPED, counter.recorder.figures())] {
            let Figures { created, stored_max, bytes_max, compared } = figures;
            ledger.append(&[way, created, stored_max]);
            ledger.append(&[way + word::MORE, bytes_max, compared]);
        }
    }

    /// Nobody else counts while `run` runs.
    pub(super) fn around(&self, run: &mut dyn FnMut()) {
        let _counter = self.counter.as_ref().map(Lock::lock);
        run();
    }

    /// The process begins anew.
    pub(super) fn fork(&self) {
        if let Some(counter) = &self.counter {
            *counter.lock() = Counter::default();
        }
    }
}
