//! The gate while replaying.
//!
//! Reference rule (ROLT 1994, section 4): an event with timestamp x runs when
//! every event with a smaller timestamp has run. The trace tells each thread the
//! timestamp of its next event beforehand, and the thread publishes it; so "has
//! every smaller event run" is "is every other thread's next timestamp at least
//! x". This never deadlocks, because everything a thread can natively wait for
//! has a smaller timestamp than its next event (but see `creation.rs`; for events that
//! need not wait, `entering.rs`).
//!
//! It serialises more than the program needs. A replay by the reference rule
//! therefore learns: each object remembers its last event, and where that was
//! another thread's and not yet implied, the thread writes down whom it waited
//! for. Later replays wait for exactly that, and for nothing else. Most events
//! then have no record at all: nobody to wait for, no result, no hash due. Such a
//! quiet stretch is known from its first event on, and each event in it costs a
//! comparison, a hash step and a store that others can see (`ahead.rs`).
//!
//! Blocking disappears: the turn implies that a lock is free. Results that order
//! does not determine are read from the stream.

mod ahead;
pub mod calls;
mod creation;
pub mod cursor;
mod end;
mod entering;
pub mod lapse;
mod learning;
pub mod signals;
mod stops;
pub mod strike;
pub mod turn;

use crate::environment::generated;
use crate::object::{Cell, pack};
use crate::races;
use crate::report::{self, Met};
use crate::runtime;
use crate::thread::{self, Thread};
use core::sync::atomic::Ordering;
use cursor::Cursor;
use end::past_the_end_of_calls;
pub use end::{busy, failed};
use entering::Locks;
pub use entering::{await_next, enter, enter_apart, enter_at, enter_holding, enter_told};
use relive_order::{CheckHash, Kind};
use relive_trace::control::{TurnSlot, cause, flag, turn as state};
use relive_trace::record::{Record, instruction};
pub use signals::{deliver_before_event, deliver_before_operation, deliver_computing, deliver_due, is_due};
pub use stops::tell_if_due;
pub use turn::joined;

const KNOWN: usize = 32;

/// The calling thread. In a fork child the handlers of other libraries run before ours: it gets its own identity
/// with the first of their events.
#[inline]
fn acting() -> &'static mut Thread {
    let thread = thread::current();
    if thread.forking.is_some() {
        crate::process::settle_fork(thread);
    }
    thread
}

/// What decides whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// The reference rule.
    Timestamps,
    /// The reference rule, and whom each object's event followed is written down.
    Learning,
    /// What an earlier replay has learnt.
    Derived,
}

/// Where a thread stands in its recorded stream.
#[derive(Debug)]
pub struct Replay {
    slot: Option<&'static TurnSlot>,
    /// How the clock grows, and what locks follow.
    order: Cursor,
    /// Everything else: results, runs, hashes.
    values: Cursor,
    /// Calls in which time passed.
    lapses: Cursor,
    repeated: lapse::Repeated,
    stand: lapse::Stand,
    /// Waits of the derived order.
    derived: Cursor,
    events: u64,
    total: u64,
    finished_in_recording: bool,
    clock: u64,
    next_time: u64,
    hash: CheckHash,
    /// No other thread has an event below this timestamp left. A child of another thread starts above that
    /// thread's next event, so this stays true; for a child of this one see `expect_child`.
    safe: u64,
    joined: bool,
    /// It has waited in vain for the turn of something that needs none.
    hurries: bool,
    rule: Rule,
    locks: Locks,
    /// No record but of the order stands before this event, and it is not behind the last one. A lower bound: cursors
    /// only move on.
    plain_until: u64,
    /// By the learnt order: nor does one of that.
    quiet_until: u64,
    /// A debugger is told when so many events are complete.
    stop: Option<stops::Due>,
    /// Sleeps since the event of this number.
    sleeps: (u64, u32),
    /// The number of its next write to the session's output, if that follows one of its own.
    shown: u64,
    /// What is known of other threads' progress, by the learnt order written so far.
    known: [(u32, u64); KNOWN],
    /// Likewise, of the lapses that they have left.
    known_lapses: [(u32, u64); KNOWN],
}

impl Replay {
    /// The state of a thread that doesn't replay.
    pub const fn idle() -> Self {
        Self {
            slot: None,
            order: Cursor::empty(),
            values: Cursor::empty(),
            lapses: Cursor::empty(),
            repeated: lapse::Repeated::NOTHING,
            stand: lapse::Stand::START,
            derived: Cursor::empty(),
            events: 0,
            total: 0,
            finished_in_recording: false,
            clock: 0,
            next_time: 0,
            hash: CheckHash(0),
            safe: 0,
            joined: false,
            hurries: false,
            rule: Rule::Timestamps,
            locks: Locks::Unknown,
            plain_until: 0,
            quiet_until: 0,
            stop: None,
            sleeps: (0, 0),
            shown: 0,
            known: [(u32::MAX, 0); KNOWN],
            known_lapses: [(u32::MAX, 0); KNOWN],
        }
    }

    /// Events complete.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Events recorded.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Prepares the stream of thread `index` and publishes where it starts.
    pub fn start(&mut self, index: u32) {
        let plan = runtime::plan();
        let recorded = plan.thread(index);
        let stream = plan.stream(recorded);
        *self = Self::idle();
        self.slot = Some(&runtime::turns()[index as usize]);
        self.values = Cursor::new(stream, |r| !cursor::is_order(r) && !calls::is_full_sleep(r));
        self.derived = Cursor::new(plan.derived(recorded), |_| true);
        if runtime::has_flag(flag::LAPSES) && runtime::has_flag(flag::ENVIRONMENT) {
            self.lapses = Cursor::new(stream, calls::is_lapse);
        }
        self.total = recorded.events;
        self.finished_in_recording = recorded.finished != 0;
        self.clock = recorded.start_clock;
        self.rule = if runtime::has_flag(flag::DERIVED) {
            Rule::Derived
        } else if runtime::has_flag(flag::LEARN) {
            Rule::Learning
        } else {
            Rule::Timestamps
        };
        if self.rule != Rule::Derived {
            self.order = Cursor::new(stream, cursor::is_order);
        }
        self.stop = stops::Due::of(index);
        self.locks = Locks::at_start();
        self.foresee();
        self.look_ahead();
        self.tell_next();
    }

    /// The thread brings another one into being, whose first event may be earlier than all that are known.
    pub fn expect_child(&mut self) {
        self.safe = 0;
    }

    /// The slot that others wait on.
    pub fn slot(&self) -> &'static TurnSlot {
        self.slot.expect("a thread in a replay has a slot")
    }

    fn foresee(&mut self) {
        while self.order.at(self.events) == Some(Record::Own) {
            self.locks = Locks::at_start();
            self.order.advance();
        }
        self.next_time = if self.events == self.total {
            u64::MAX
        } else {
            match self.order.at(self.events) {
                Some(Record::Pair { extra }) => self.clock + 1 + extra,
                _ => self.clock + 1,
            }
        };
    }

    /// Makes where this thread stands visible to the others.
    pub fn publish(&self) {
        turn::publish(self.slot(), self.earliest(), self.events, self.rule == Rule::Derived);
    }
}

/// Completes the event that [`enter`] began, after its effect. `cells` are the clocks of the objects it is on,
/// `exact` whether no other object shares the first and its value can be held against the recording.
#[inline]
pub fn leave(kind: Kind, cells: &[&Cell], exact: bool) {
    races::event(kind, cells, exact);
    if !leave_quietly(kind) {
        leave_recorded(kind, cells, exact);
    }
}

/// The calling thread has diverged, and is held for good.
pub fn stands() {
    if races::is_on()
        && let Some(thread) = thread::current_if_known()
    {
        turn::stands(thread.replay.slot());
    }
}

/// The same for an event that follows the object's last one and leaves nothing there.
pub fn leave_untouched(kind: Kind, cell: &Cell) {
    races::event(kind, &[cell], false);
    if leave_quietly(kind) {
        return;
    }
    let thread = acting();
    if thread.replay.rule == Rule::Learning {
        thread.learn(cell.last.load(Ordering::Acquire));
    }
    complete(thread, kind);
}

/// Completes an event by the learnt order of which nothing is recorded.
#[inline(always)]
fn leave_quietly(kind: Kind) -> bool {
    let r = &mut acting().replay;
    if !r.is_quiet() {
        return false;
    }
    r.hash = r.hash.then(kind);
    r.events += 1;
    turn::publish_events(r.slot(), r.events, kind == Kind::Lock);
    true
}

#[inline(never)]
fn leave_recorded(kind: Kind, cells: &[&Cell], exact: bool) {
    let thread = acting();
    let time = thread.replay.next_time;
    if exact && thread.replay.rule != Rule::Derived {
        thread.check_clock(kind, cells[0], time);
    }
    for (index, cell) in cells.iter().enumerate() {
        if thread.replay.rule == Rule::Learning {
            let before = cell.last.swap(pack(thread.index, thread.replay.events + 1), Ordering::AcqRel);
            thread.learn(before);
        }
        // Last of all: whoever waits for it may go on, and do away with the object.
        if thread.replay.rule != Rule::Derived {
            if exact && index == 0 {
                // It is less, as was seen, and nobody else's turn.
                cell.clock.store(time, Ordering::Release);
            } else {
                cell.clock.fetch_max(time, Ordering::AcqRel);
            }
        }
    }
    complete(thread, kind);
}

/// What every event that is not quiet comes to, behind what it does to its objects.
fn complete(thread: &mut Thread, kind: Kind) {
    let r = &mut thread.replay;
    let (time, plain) = (r.next_time, r.is_plain());
    r.hash = r.hash.then(kind);
    r.clock = time;
    r.events += 1;
    r.joined = false;
    if let Some(told) = r.order.at(r.events - 1) {
        if matches!(told, Record::Behind { .. }) && r.locks == Locks::Own {
            r.locks = Locks::OwnOrOld;
        }
        r.order.advance();
    }
    r.pass_lapses();
    r.foresee();
    if r.rule == Rule::Learning && !thread.header.is_null() {
        // SAFETY: the thread's own chunk of the learn file.
        unsafe {
            (*thread.header).events = thread.replay.events;
            (*thread.header).clock = time;
        }
    }
    thread.replay.publish();
    if plain && !thread.replay.is_malformed() {
        return thread.replay.look_for_waits();
    }
    stops::tell_if_due(&mut thread.replay);
    // The handler that follows its event comes first: whatever struck behind it is looked for then.
    if kind == Kind::Deliver {
        signals::look_for_passage();
    } else {
        deliver_computing();
    }
    calls::say_if_done();
    acting().replay.look_ahead();
}

/// Whether the event that [`enter`] began is the calling thread's last recorded one.
pub fn is_last() -> bool {
    let r = &thread::current().replay;
    r.events + 1 == r.total
}

/// Whether the next attempt of `kind` failed in the recording, and with which result.
#[inline]
pub fn failure(kind: Kind) -> Option<i32> {
    if acting().replay.is_plain() {
        return None;
    }
    signals::deliver_before_operation();
    failure_of_last(kind)
}

/// Whether the effect of the event just completed failed in the recording. The program is not yet at its next
/// operation, so no signal handler runs here.
pub fn failure_of_last(kind: Kind) -> Option<i32> {
    let r = &mut acting().replay;
    r.skip_hashes();
    match r.values.at(r.events) {
        Some(Record::Run { kind: recorded, result, count }) if recorded == kind => {
            r.values.consume_one_of(count);
            Some(result as i32)
        }
        _ => None,
    }
}

/// Whether the event that was entered failed in the recording.
pub fn fails(kind: Kind) -> bool {
    let r = &acting().replay;
    r.values.fails_at(r.events + 1, kind)
}

/// The recorded value of the next event, if one was stored.
#[inline]
pub fn value() -> Option<i64> {
    let r = &mut acting().replay;
    if r.is_plain() { None } else { r.recorded_value() }
}

/// Takes the record before the next event if `wanted` says so.
pub fn take(wanted: impl Fn(Record) -> bool) -> Option<Record> {
    let r = &mut acting().replay;
    r.skip_hashes();
    let found = r.values.at(r.events).filter(|&f| wanted(f))?;
    r.values.advance();
    Some(found)
}

/// Says which number the calling thread's next write to the session's output has.
pub fn expect_shown(number: u64) {
    acting().replay.shown = number;
}

/// That number.
pub fn expected_shown() -> u64 {
    acting().replay.shown
}

/// Whether an operation on a stream is one that the recording does not have: a print added to a rebuilt program.
pub fn is_added_operation() -> bool {
    if !runtime::has_flag(flag::REBUILT) {
        return false;
    }
    let r = &acting().replay;
    !r.values.has_at(r.events + 1, Record::Stream)
}

/// Says that the calling thread is, or no longer is, blocked in a real primitive without time limit.
pub fn set_blocked(blocked: bool, place: usize) {
    if blocked {
        lapse::let_go();
    }
    let slot = acting().replay.slot();
    slot.place.store(place as u64, Ordering::Relaxed);
    slot.state.store(if blocked { state::BLOCKED } else { state::RUNNING }, Ordering::Release);
}

impl Replay {
    /// Says where the thread is, for whoever has to report it.
    #[inline(always)]
    fn stand_at(&self, kind: Kind, place: usize) {
        let slot = self.slot();
        slot.kind.store(kind as u32, Ordering::Relaxed);
        slot.place.store(place as u64, Ordering::Relaxed);
    }

    #[inline(never)]
    fn recorded_value(&mut self) -> Option<i64> {
        self.skip_hashes();
        match self.values.at(self.events) {
            Some(Record::Value(v)) => {
                self.values.advance();
                Some(v)
            }
            _ => None,
        }
    }

    /// Passes over check hashes at the present event number. They are compared in `settle`, which runs
    /// at every event; a mismatch can't be missed by being passed over here.
    fn skip_hashes(&mut self) {
        loop {
            match self.values.at(self.events) {
                Some(Record::Hash(expected)) if expected != self.hash.0 => self.hash_mismatch(expected),
                Some(Record::Hash(_) | Record::Stream | Record::Tally { .. }) => self.values.advance(),
                found => match found.or_else(|| self.values.at(self.events + 1)) {
                    Some(Record::Call { number: instruction::FORBIDDEN, .. }) => {
                        self.values.advance();
                        generated::begin();
                    }
                    _ => return,
                },
            }
        }
    }

    #[cold]
    fn hash_mismatch(&self, expected: u32) -> ! {
        let thread = acting();
        report::diverge(Met {
            cause: cause::HASH,
            thread: thread.index,
            did: None,
            event: self.events,
            expected: expected as u64,
            found: self.hash.0 as u64,
            place: self.slot().place.load(Ordering::Relaxed) as usize,
            object: 0,
        })
    }
}

impl Thread {
    /// Compares check hashes due at this event number; any other record that was not asked for by now
    /// is a result of something that the program did not do this time.
    fn settle(&mut self, kind: Kind, place: usize) {
        let r = &mut self.replay;
        r.skip_hashes();
        r.skip_lapses_before(kind);
        let left_over = match r.values.position() {
            // A value belongs to the event about to run; `leave` finds it gone or the next event reports it.
            // So may a call: the event's own effect makes it.
            Some(at) => {
                let later = |record| matches!(record, Record::Value(_) | Record::Call { .. });
                at < r.events || (at == r.events && !r.values.at(at).is_some_and(later))
            }
            None => false,
        };
        if left_over {
            report::diverge_plain(cause::VALUE, self.index, Some(kind), r.events, place);
        }
        if r.is_malformed() {
            report::diverge_plain(cause::MALFORMED, self.index, Some(kind), r.events, place);
        }
    }
}
