//! Divergences behind which a replay goes on.
//!
//! Apart from its end, because these come before it, and the process that met one has to live while it is put into
//! words: it waits for that.

use super::Report;
use super::ending::Run;
use relive_trace::control::claim;
use rustix::thread::futex;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// What a replay went on behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The first.
    pub report: Box<Report>,
    /// How many there were.
    pub count: u64,
}

impl Run<'_> {
    /// Puts the first one into words, once it is there. Returns it then.
    pub(super) fn hear(&self) -> Option<&Report> {
        let met = &self.shared.control().passed;
        if met.claimed.load(Acquire) != claim::COMPLETE {
            return None;
        }
        let report = self.passed.get_or_init(|| self.scene().reported(met));
        met.claimed.store(claim::WORDED, Release);
        let _ = futex::wake(&met.claimed, futex::Flags::empty(), 1);
        Some(report)
    }

    /// All of them, at the end.
    pub(super) fn passed(&self) -> Option<Passed> {
        self.hear();
        let count = self.shared.control().passed_count.load(Relaxed);
        self.passed.get().map(|report| Passed { report: Box::new(report.clone()), count })
    }
}
