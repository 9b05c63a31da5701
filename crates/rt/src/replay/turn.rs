//! Waiting for a turn, and publishing one, without burning a core.
//!
//! How sleepers and publishers meet is in `relive_sys::wake`; here is what they
//! wait for, by either rule.

mod coming;

use crate::races;
use crate::report;
use crate::runtime;
use core::cell::Cell;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use relive_sys::barrier::Barrier;
use relive_sys::syscall;
use relive_sys::wake::{Progress, SLEEP_MS};
use relive_trace::control::{TurnSlot, flag, turn as state};
use relive_trace::record::LAPSES;

pub use coming::{let_come_to, publish_lapses, publish_stand, wait_for_lapses};

/// About a microsecond: longer than a hand-over between two running cores takes.
const SPINS: u32 = 60;
/// Rounds of [`SPINS`] before a sleep, about a millisecond in all. After each the core is given up once: whoever is
/// waited for may be ready to run on this very one. A shorter wait costs more than it saves: while a sleeper is woken
/// (50 µs in a virtual machine), the other one reaches its own next wait and falls asleep, and from then on the
/// replay goes from one wake-up to the next.
const ROUNDS: u32 = 1000;
/// Threads that may do so at a time by the learnt order. The others sleep after the first rounds: with a thousand of them,
/// each would look a thousand times before the one that they wait for, one after the other, has run. (By timestamps
/// each waits for all others, and who slept would be woken by each of them.)
const POLLING_MAX: u32 = 16;
const ROUNDS_OF_MANY: u32 = 4;
/// How many threads of this process are in their further rounds.
static POLLING: AtomicU32 = AtomicU32::new(0);
/// How long somebody sleeps at a time, in milliseconds, whom an object may let go on: that wakes nobody.
const LOOK_MS: u32 = 2;
/// In how many looks at others' progress there is one at the object: its line of the cache is its holder's.
const LOOKS: u32 = 4;

fn barrier() -> Barrier {
    if runtime::asymmetric() { Barrier::Asymmetric } else { Barrier::Symmetric }
}

fn progress<'a>(slot: &'a TurnSlot, reached: &'a AtomicU64) -> Progress<'a> {
    Progress { reached, wake_at: &slot.wake_at, sequence: &slot.sequence }
}

/// Makes progress visible and wakes those it satisfies.
#[inline]
pub fn publish(slot: &TurnSlot, next: u64, events: u64, derived: bool) {
    slot.events.store(events, Ordering::Release);
    slot.awaited.handed_over.store(events, Ordering::Release);
    slot.awaited.next.store(next, Ordering::Release);
    // Whoever sleeps for the other of the two is woken too early at worst, looks, and sleeps again.
    let (word, value) = if derived { (&slot.events, events) } else { (&slot.awaited.next, next) };
    progress(slot, word).announce(value, barrier());
}

/// [`publish`] where only the number of events counts: by the learnt order, before the last event.
///
/// After an event that only `takes` something, others wait for the next one: it is kept from those who poll until then.
#[inline(always)]
pub fn publish_events(slot: &TurnSlot, events: u64, takes: bool) {
    slot.events.store(events, Ordering::Release);
    if !takes {
        slot.awaited.handed_over.store(events, Ordering::Release);
    }
    progress(slot, &slot.events).announce(events, barrier());
}

/// What else than others' progress ends a wait: the event that is waited for on an object has run, by its clock.
///
/// Of events on one object each has a larger timestamp than the one before, and the clock is the timestamp of the last
/// one. Where that is one less than an event's own, no other event can come between the two.
#[derive(Clone, Copy, Debug)]
pub struct Follows<'a> {
    /// The object's clock, which no other object shares.
    pub clock: &'a AtomicU64,
    /// The timestamp of the event.
    pub time: u64,
}

impl Follows<'_> {
    /// Whether the event is the next one of the object.
    #[inline]
    pub fn is_next(&self) -> bool {
        self.clock.load(Ordering::Acquire) == self.time - 1
    }
}

/// What lets an event by timestamps run other than that all others are behind it.
#[derive(Clone, Copy, Debug)]
pub struct Sooner<'a> {
    /// Its object says so.
    pub follows: Option<Follows<'a>>,
    /// Whether it waits for threads that have diverged, and so have no further event.
    pub past: Past<'a>,
}

/// When an event runs though a thread that has diverged would have had one before it.
#[derive(Clone, Copy, Debug)]
pub enum Past<'a> {
    /// Not at all.
    Never,
    /// If that one's next event would have had at least this timestamp, or the object says that none of it came in between.
    Unless(u64, Option<Follows<'a>>),
    /// Whatever it was.
    Always,
}

const NEVER: Sooner<'static> = Sooner { follows: None, past: Past::Never };

impl Sooner<'_> {
    fn is_next(&self) -> bool {
        self.follows.is_some_and(|follows| follows.is_next())
    }

    fn passes(&self, slot: &TurnSlot) -> bool {
        match self.past {
            Past::Never => false,
            _ if slot.state.load(Ordering::Acquire) != state::DIVERGED => false,
            Past::Unless(time, follows) => {
                slot.awaited.next.load(Ordering::Acquire) >= time || follows.is_some_and(|follows| follows.is_next())
            }
            Past::Always => true,
        }
    }
}

/// The calling thread has diverged: who need not wait for it goes on.
pub fn stands(slot: &TurnSlot) {
    slot.state.store(state::DIVERGED, Ordering::SeqCst);
    progress(slot, &slot.awaited.next).wake();
}

/// Waits until no other thread has an event with a timestamp below `time` left, or until that does not matter. Returns the
/// smallest timestamp that some other thread may still run, in the first case.
pub fn wait_for_time(own: &TurnSlot, index: u32, time: u64, sooner: Sooner<'_>) -> Option<u64> {
    // One line of the cache, which the event needs anyway, and those of others need not be looked at.
    if sooner.is_next() {
        return None;
    }
    let control = runtime::session();
    let turns = runtime::turns();
    let mut passed = false;
    loop {
        let births = control.births.load(Ordering::Acquire);
        let born = control.born.load(Ordering::Acquire) as usize;
        let settled = settle(control, turns, born);
        let mut safe = u64::MAX;
        let mut waited = false;
        for (other, slot) in others(turns, index, settled, born) {
            let mut next = slot.awaited.next.load(Ordering::Acquire);
            if next < time && sooner.passes(slot) {
                passed = true;
                continue;
            }
            if next < time {
                if !wait_until(own, slot, other, (&slot.awaited.next, &slot.awaited.next), time, sooner) {
                    if !sooner.passes(slot) {
                        return None;
                    }
                    passed = true;
                    continue;
                }
                waited = true;
                next = slot.awaited.next.load(Ordering::Acquire);
            }
            safe = safe.min(next);
        }
        // A thread created meanwhile may have been passed over while it was unborn.
        if !waited && control.births.load(Ordering::Acquire) == births {
            // What was passed counts for the next event.
            return Some(safe).filter(|_| !passed);
        }
    }
}

/// Whether it becomes the turn of thread `index` at `time` before about a fifth of a second has passed.
pub fn comes_soon(index: u32, time: u64) -> bool {
    const YIELDS: u32 = 1000;
    const SLEEPS: u32 = 180;
    let never = AtomicU32::new(0);
    for round in 0..YIELDS + SLEEPS {
        if is_turn(index, time) {
            return true;
        }
        if round < YIELDS {
            syscall::sched_yield();
        } else {
            syscall::futex_wait(&never, 0, Some(1));
        }
    }
    false
}

/// Changes whenever a thread of the session completes an event or takes the result of a call.
pub fn progress_of_all() -> u64 {
    let done = |slot: &TurnSlot| slot.events.load(Ordering::Acquire).wrapping_add(slot.calls.load(Ordering::Relaxed));
    runtime::turns().iter().fold(0u64, |sum, slot| sum.wrapping_add(done(slot)))
}

/// Whether no other thread has an event with a timestamp below `time` left, as far as threads are born.
fn is_turn(index: u32, time: u64) -> bool {
    let control = runtime::session();
    let turns = runtime::turns();
    let born = control.born.load(Ordering::Acquire) as usize;
    let settled = settle(control, turns, born);
    others(turns, index, settled, born).all(|(_, slot)| slot.awaited.next.load(Ordering::Acquire) >= time)
}

/// The other threads that may have an event left: the first one, and those from `settled` on.
fn others(turns: &[TurnSlot], index: u32, settled: usize, born: usize) -> impl Iterator<Item = (u32, &TurnSlot)> {
    let mut at = 0;
    core::iter::from_fn(move || {
        while at < born {
            let other = at;
            at = if at == 0 { settled } else { past_settled(turns, at, born).max(at + 1) };
            if other != index as usize && !is_elsewhere(other as u32) {
                return Some((other as u32, &turns[other]));
            }
        }
        None
    })
}

/// Whether a thread is of another process than the caller's in a replay of one process, which shares nothing with others
/// whose order would count; those may not even be there.
fn is_elsewhere(other: u32) -> bool {
    runtime::has_flag(flag::ALONE) && runtime::plan().thread(other).process != runtime::process()
}

/// Whether a thread has run its last event. That stays so.
fn is_settled(slot: &TurnSlot) -> bool {
    let next = || slot.awaited.next.load(Ordering::Acquire);
    // Most have events left, and the state is in a line that they write at each of them. Then the state first: who is born
    // in between has its first event in `next` by then, and infinity before.
    next() == u64::MAX && slot.state.load(Ordering::Acquire) != state::UNBORN && next() == u64::MAX
}

/// The first thread from `start` on that may have an event left. Runs of settled threads are remembered at their first
/// one: a thread that lives long must not make each of a hundred thousand others look through all before it.
fn past_settled(turns: &[TurnSlot], start: usize, born: usize) -> usize {
    let mut at = start;
    while at < born && is_settled(&turns[at]) {
        at = (turns[at].settled_until.load(Ordering::Relaxed) as usize).max(at + 1);
    }
    if at > start + 1 {
        turns[start].settled_until.fetch_max(at as u32, Ordering::Relaxed);
    }
    at
}

/// Moves the mark below which every thread has run its last event, so that scans stay short.
fn settle(control: &relive_trace::control::Control, turns: &[TurnSlot], born: usize) -> usize {
    let start = (control.settled.load(Ordering::Acquire) as usize).max(1);
    let mut settled = start;
    while settled < born && is_settled(&turns[settled]) {
        settled += 1;
    }
    if settled > start {
        control.settled.fetch_max(settled as u32, Ordering::AcqRel);
    }
    settled
}

/// Waits for what a record of the learnt order says.
#[inline]
pub fn wait_for_progress(own: &TurnSlot, other: u32, progress: u64) {
    if progress & LAPSES == 0 {
        return wait_for_events(own, other, progress);
    }
    let slot = &runtime::turns()[other as usize];
    let (left, wanted) = (&slot.awaited.lapses_left, progress & !LAPSES);
    if left.load(Ordering::Acquire) < wanted && !is_elsewhere(other) {
        wait_until(own, slot, other, (left, left), wanted, NEVER);
    }
}

/// Waits until thread `other` has completed `events` events.
#[inline]
pub fn wait_for_events(own: &TurnSlot, other: u32, events: u64) {
    let slot = &runtime::turns()[other as usize];
    if slot.awaited.handed_over.load(Ordering::Acquire) < events && !is_elsewhere(other) {
        wait_until(own, slot, other, (&slot.awaited.handed_over, &slot.events), events, NEVER);
    }
}

/// Waits until thread `other` has run all its `total` recorded events, whatever the rule.
pub fn wait_for_end(own: &TurnSlot, other: u32, total: u64) {
    let slot = &runtime::turns()[other as usize];
    if runtime::has_flag(flag::DERIVED) {
        wait_for_events(own, other, total);
    } else if slot.awaited.next.load(Ordering::Acquire) < u64::MAX || slot.events.load(Ordering::Acquire) < total {
        wait_until(own, slot, other, (&slot.awaited.handed_over, &slot.events), total, NEVER);
    }
}

/// Looks so many rounds long whether `word` has reached `wanted`, or `is_next` says that it does not matter: then `false`.
#[inline]
fn poll(
    rounds: u32,
    (polled, word): (&AtomicU64, &AtomicU64),
    wanted: u64,
    is_next: impl Fn() -> bool,
) -> Option<bool> {
    for _ in 0..rounds {
        for spin in 0..SPINS {
            if polled.load(Ordering::Acquire) >= wanted {
                return Some(true);
            }
            if spin % LOOKS == 0 && is_next() {
                return Some(false);
            }
            core::hint::spin_loop();
        }
        if word.load(Ordering::Acquire) >= wanted {
            return Some(true);
        }
        syscall::sched_yield();
    }
    None
}

/// Waits for `word` to reach `wanted`; `polled` is never ahead of it and cheaper for its writer to have polled. `false` if
/// something was sooner.
#[inline(never)]
fn wait_until(
    own: &TurnSlot,
    slot: &TurnSlot,
    other: u32,
    (polled, word): (&AtomicU64, &AtomicU64),
    wanted: u64,
    sooner: Sooner<'_>,
) -> bool {
    let is_next = || sooner.is_next() || sooner.passes(slot);
    if is_next() {
        return false;
    }
    // Whoever waits behind this thread's next release need not wait for that, too.
    races::waits();
    if let Some(ended) = poll(ROUNDS_OF_MANY, (polled, word), wanted, is_next) {
        return ended;
    }
    own.waits_for.store(other, Ordering::Relaxed);
    own.wants.store(wanted, Ordering::Relaxed);
    own.state.store(state::WAITING, Ordering::Release);
    let reached = wait_long(slot, (polled, word), wanted, is_next, sooner.follows.is_some());
    own.state.store(state::RUNNING, Ordering::Release);
    reached
}

/// [`wait_until`] where others were not quick.
fn wait_long(
    slot: &TurnSlot,
    (polled, word): (&AtomicU64, &AtomicU64),
    wanted: u64,
    is_next: impl Fn() -> bool,
    looks: bool,
) -> bool {
    let is_one_of_many = POLLING.fetch_add(1, Ordering::Relaxed) >= POLLING_MAX && runtime::has_flag(flag::DERIVED);
    let rounds = if is_one_of_many { 0 } else { ROUNDS - ROUNDS_OF_MANY };
    let ended = poll(rounds, (polled, word), wanted, &is_next);
    POLLING.fetch_sub(1, Ordering::Relaxed);
    if let Some(ended) = ended {
        return ended;
    }
    let stands = Cell::new(coming::Stands::default());
    let sleep_ms = match runtime::session().lapses.load(Ordering::Relaxed) {
        _ if looks => LOOK_MS,
        0 => SLEEP_MS,
        _ => coming::LOOK_MS,
    };
    let slept = Cell::new(false);
    progress(slot, word).sleep_until(wanted, barrier(), sleep_ms, || {
        if slept.replace(true) {
            report::end_without_launcher();
        }
        stands.set(stands.get().or_passed(slot));
        !is_next()
    })
}

/// Who waited in the parent of this fork child does not wait here.
pub fn reset_after_fork() {
    POLLING.store(0, Ordering::Relaxed);
}

/// The program joined a clock without an event: the next jump need not be the object's.
pub fn joined() {
    super::acting().replay.joined = true;
}
