//! Coming to an event: the wait for its turn.
//!
//! By timestamps a thread waits until all others are behind its event. Of an event on
//! one object alone, which shares its clock with no other one, less would do:
//!
//! - if the thread holds the object, and nobody else may touch it before, all that the
//!   event follows is the thread's own;
//! - if the object's clock is one less than the event's timestamp, the event is the
//!   object's next one ([`turn::Follows`]), wherever others are.
//!
//! Lamport clocks of threads that have little to do with each other drift apart, and by
//! the first rule alone the one that is ahead waits for the other as if they had: two
//! threads that take tasks from a queue ran by turns.
//!
//! - if the recording says of a lock, or of an instruction that changes memory indivisibly,
//!   that it follows no other thread's event, it waits for nobody; if that it may follow an old one, until others are behind that one
//!   (`Record::Behind`, `Record::Own`), or until the object's clock shows that it does not.
//!
//! Behind a call in which time passed nobody comes before its thread has left it, by either rule (`lapse.rs`).
//!
//! But what nobody orders, as accesses that race, or what a forked child finds locked, is
//! nearest to the recording if all wait for all. So only those replays go ahead so that
//! are tried again by the first rule alone if they diverge (`flag::AHEAD`).
//!
//! Where races are looked for, the others go on when a thread has diverged, as far as they
//! can without it: what it met may well be the one half of a race. Its missing events hold
//! nobody up whose own event learns nothing by order: memory and locks are what they are.
//! What is read from a descriptor, or waited for, is not waited for in vain there: that
//! comes from the recording.
//!
//! Apart from completing it, which others wait for.

use super::end::past_the_end;
use super::turn::{Follows, Past, Sooner};
use super::{Replay, Rule, acting, deliver_before_event, turn};
use crate::object::Cell;
use crate::{races, runtime};
use core::sync::atomic::Ordering;
use relive_order::Kind;
use relive_trace::control::flag;
use relive_trace::record::{GAP_UNTOLD, Record};

/// What makes it a thread's turn by timestamps, other than that all others are behind its event.
#[derive(Clone, Copy, Debug)]
enum Else<'a> {
    Nothing,
    /// The event is the next one of its one object.
    Next(&'a Cell),
    /// The recording tells whom it follows, as of a lock; its object may share its clock.
    Told,
    /// It has the object.
    Held,
    /// Nothing, and it learns nothing of what others did.
    Apart,
}

/// Waits until it is the calling thread's turn to run its next event, which must be of `kind`.
///
/// Never returns if the recording ends before this event, or if the replay has diverged.
#[inline]
pub fn enter(kind: Kind, place: usize) {
    enter_on(kind, place, Else::Nothing);
}

/// The same for an event on an object that shares its clock with no other one, and on no other object.
#[inline]
pub fn enter_at(kind: Kind, place: usize, cell: &Cell) {
    enter_on(kind, place, Else::Next(cell));
}

/// The same for an event of which the recording tells whom it follows, on an object that may share its clock.
#[inline]
pub fn enter_told(kind: Kind, place: usize) {
    enter_on(kind, place, Else::Told);
}

/// The same for an event on nothing but what the thread holds and nobody else may touch before.
#[inline]
pub fn enter_holding(kind: Kind, place: usize) {
    enter_on(kind, place, Else::Held);
}

/// The same as [`enter`] for an event on state of ours, or by which a thread only gives.
#[inline]
pub fn enter_apart(kind: Kind, place: usize) {
    enter_on(kind, place, Else::Apart);
}

/// Waits until it is the calling thread's turn for its next event, and does not come to it: for who takes a lock in between
/// that others, who have to come first, take at moments that nobody knows.
pub fn await_next() {
    let thread = acting();
    let r = &mut thread.replay;
    let slot = r.slot();
    if r.rule == Rule::Derived {
        return r.wait_as_learnt();
    }
    let (time, past) = (r.next_time, if races::is_on() { Past::Always } else { Past::Never });
    if time != u64::MAX && time > r.safe {
        let safe = turn::wait_for_time(slot, thread.index, time, Sooner { follows: None, past });
        r.safe = r.safe.max(safe.unwrap_or(0));
    }
}

#[inline(always)]
fn enter_on(kind: Kind, place: usize, or: Else<'_>) {
    let r = &acting().replay;
    if r.is_quiet() {
        r.stand_at(kind, place);
    } else {
        enter_recorded(kind, place, or);
    }
}

#[inline(never)]
fn enter_recorded(kind: Kind, place: usize, or: Else<'_>) {
    if !acting().replay.is_plain() {
        come_to(kind, place);
    }
    acting().replay.leave_lapses();
    let thread = acting();
    let r = &mut thread.replay;
    r.stand_at(kind, place);
    let slot = r.slot();
    if r.rule == Rule::Derived {
        return r.wait_as_learnt();
    }
    let goes_ahead = runtime::has_flag(flag::AHEAD);
    if goes_ahead || r.rule == Rule::Learning {
        thread.wait_for_lapses();
    }
    let r = &mut thread.replay;
    let nearest = if goes_ahead { or } else { Else::Nothing };
    let Some((time, follows)) = r.awaited(kind, nearest) else { return };
    if time > r.safe && !r.goes_before_its_turn(kind, thread.index) {
        let past = r.past(kind, or);
        let safe = turn::wait_for_time(slot, thread.index, time, Sooner { follows, past });
        r.safe = r.safe.max(safe.unwrap_or(0));
    }
}

/// Does what was recorded to happen before the next event, if there is one.
#[inline(never)]
fn come_to(kind: Kind, place: usize) {
    deliver_before_event();
    let thread = acting();
    thread.settle(kind, place);
    if thread.replay.events == thread.replay.total {
        past_the_end(thread, kind, place);
    }
}

/// What a lock follows of which nothing is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Locks {
    /// No other thread's event.
    Own,
    /// Perhaps one of another thread that is [`GAP_UNTOLD`] or more behind.
    OwnOrOld,
    /// Perhaps any one.
    Unknown,
}

impl Locks {
    /// At a thread's start.
    pub(super) fn at_start() -> Self {
        if runtime::has_flag(flag::LOCKS) { Self::Own } else { Self::Unknown }
    }

    fn gap(self) -> u64 {
        match self {
            Self::Own => u64::MAX,
            Self::OwnOrOld => GAP_UNTOLD,
            Self::Unknown => 0,
        }
    }
}

impl Replay {
    /// If the next event follows another thread's on its object, that one's timestamp is at least so much below this
    /// thread's clock; `u64::MAX` if it follows none.
    pub(super) fn gap(&self, kind: Kind) -> u64 {
        match self.order.at(self.events) {
            Some(Record::Behind { gap }) => gap,
            None if kind == Kind::Lock => self.locks.gap(),
            None if kind == Kind::Atomic && runtime::has_flag(flag::ATOMICS_TELL) => self.locks.gap(),
            _ => 0,
        }
    }

    /// The waits of the learnt order for the next event.
    fn wait_as_learnt(&mut self) {
        while let Some(Record::Wait { thread: other, events }) = self.derived.at(self.events) {
            self.derived.advance();
            turn::wait_for_progress(self.slot(), other, events);
        }
    }

    /// Whether the next event waits for a thread that has diverged.
    fn past<'a>(&self, kind: Kind, or: Else<'a>) -> Past<'a> {
        if !races::is_on() {
            return Past::Never;
        }
        if matches!(or, Else::Apart) || races::learns_nothing(kind) {
            return Past::Always;
        }
        self.awaited(kind, or).map_or(Past::Always, |(time, follows)| Past::Unless(time, follows))
    }

    /// Below which timestamp no other thread may have an event left when the next event runs, and what ends the wait for
    /// that sooner; `None` if it need not wait at all.
    fn awaited<'a>(&self, kind: Kind, or: Else<'a>) -> Option<(u64, Option<Follows<'a>>)> {
        let time = self.next_time;
        match or {
            Else::Nothing | Else::Apart => Some((time, None)),
            Else::Held => None,
            // Where it follows none the gap is larger than any timestamp.
            Else::Told => time.checked_sub(self.gap(kind)).map(|old| (old, None)),
            Else::Next(cell) => match self.gap(kind) {
                0 => Some((time, Some(Follows { clock: &cell.clock, time }))),
                u64::MAX => None,
                // The other thread's event has at most this thread's clock, which is one less than `time`, less the gap. If
                // the object's last one is not that old, it is the thread's own, and nothing comes in between.
                gap => {
                    let old = time.saturating_sub(gap);
                    (cell.clock.load(Ordering::Acquire) < old).then_some((old, None))
                }
            },
        }
    }
}
