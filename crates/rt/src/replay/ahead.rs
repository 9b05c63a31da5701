//! How far a thread can go without a record.
//!
//! Most events have none but of the order, and runs of them are known from their first
//! one on: an event in such a run is *plain*, and nothing but the order is asked of it.
//! By the learnt order most plain events wait for nobody either: they are *quiet*.
//!
//! Both ends are lower bounds, because cursors only move on. That of the quiet run moves
//! with each wait, within a plain run too; that of the plain one at its end.
//!
//! Apart from the gate, which asks at each event.

use super::cursor::Cursor;
use super::{Replay, Rule};

impl Replay {
    /// Looks how far the thread can go, at the end of a run.
    pub(super) fn look_ahead(&mut self) {
        self.plain_until = self.values.position().unwrap_or(u64::MAX).min(self.total);
        if let Some(due) = &self.stop {
            self.plain_until = self.plain_until.min(due.event());
        }
        if self.is_malformed() {
            self.plain_until = 0;
        }
        self.look_for_waits();
    }

    /// Looks how far it need not wait, within a plain run.
    pub(super) fn look_for_waits(&mut self) {
        let to = [&self.derived, &self.lapses].map(|cursor| cursor.position().unwrap_or(u64::MAX));
        self.quiet_until = if self.rule == Rule::Derived { self.plain_until.min(to[0]).min(to[1]) } else { 0 };
    }

    /// Whether one of the streams could not be decoded to its end.
    pub(super) fn is_malformed(&self) -> bool {
        [&self.values, &self.order, &self.derived].into_iter().any(Cursor::malformed)
    }

    /// Whether of the thread's next event nothing but its order was recorded, and nothing stands behind it: it succeeds,
    /// no signal comes before or behind it, and no hash is due.
    #[inline(always)]
    pub(super) fn is_plain(&self) -> bool {
        self.events + 1 < self.plain_until
    }

    /// Whether a plain event waits for nobody either.
    #[inline(always)]
    pub(super) fn is_quiet(&self) -> bool {
        self.events + 1 < self.quiet_until
    }
}
