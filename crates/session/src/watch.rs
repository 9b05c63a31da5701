//! Notices when a replay can't go on, and when it has come to the recording's end.
//!
//! It looks at the turn slots a few times a second and convicts only on
//! evidence that load on the machine can't produce: nobody completed an event
//! for a while, and each thread that is not waiting for a turn either burnt more
//! processor time meanwhile than the whole recording took, or slept through it.
//! A thread that merely gets no processor is never convicted.

use crate::processes::{self, SystemCall, ThreadState};
use relive_trace::control::{TurnSlot, turn};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

/// How often to look.
pub const TICK: Duration = Duration::from_millis(100);
/// All threads wait for each other so long: stuck. Nothing but one of them could let another one go on.
const WAITING_MAX: Duration = Duration::from_millis(300);
/// The same where one of them is in a call, from which the kernel lets it come.
const BLOCKED_MAX: Duration = Duration::from_millis(700);
/// A thread whose turn it is wakes within the runtime's own bound on lost wake-ups.
const WAKING_MAX: Duration = Duration::from_millis(1700);
/// The shortest time that a thread may spend outside recorded operations.
const OUTSIDE_MIN: Duration = Duration::from_millis(900);
/// So long must everything be at rest at the end of the recording.
const REST: Duration = Duration::from_millis(150);
/// A longer time between two looks is a pause.
const PAUSE_MIN: Duration = Duration::from_millis(500);
/// What the kernel counts processor time in: `USER_HZ`, the same on every Linux.
const TICKS_PER_SECOND: u32 = 100;
/// A new thread has told its id after so long, on whatever machine.
const BIRTH_MAX: Duration = Duration::from_secs(10);
/// The shortest time for a sleep in a call other than a futex.
const WORLD_MIN: Duration = Duration::from_millis(1700);
/// The shortest time for waiting for child processes of which none is recorded.
const CHILDREN_MIN: Duration = Duration::from_secs(10);
const READ: i64 = 0;
/// So often a thread is looked at before it is known how it spends its time,
const DOZE_LOOKS: u32 = 10;
/// and so many times longer may one go on that sleeps for most of it.
const DOZING: u32 = 2;
/// So many times longer may a thread compute that looks for the passage at which a signal struck.
const LOOKING: u32 = 60;
/// So many times longer may a thread compute for which the detector of races works,
const WORKING: u32 = 20;
/// and so much longer for each byte that the detector watches.
const WORKING_PER_BYTE: Duration = Duration::from_micros(20);
/// So long nothing happens while a thread is where it waited in vain in another replay.
const IN_VAIN_MAX: Duration = Duration::from_secs(3);
const WAIT4: i64 = 61;
const FUTEX: i64 = 202;
const WAITID: i64 = 247;

/// What the watch found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing to object to.
    Going,
    /// Every thread has run its last recorded event, and none runs on.
    AtEnd,
    /// It can't go on.
    Stuck(Stuck),
}

/// Why it can't go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// Every thread waits for another one.
    AllWait {
        /// One that waits.
        thread: u32,
    },
    /// A thread computes without reaching a recorded operation.
    Spins {
        /// The thread.
        thread: u32,
    },
    /// A thread sleeps outside any recorded operation.
    Sleeps {
        /// The thread.
        thread: u32,
    },
    /// A thread goes on after its last recorded event although the program ended by itself.
    GoesOn {
        /// The thread.
        thread: u32,
    },
    /// A thread is gone with recorded events left.
    Vanished {
        /// The thread.
        thread: u32,
    },
}

/// What the kernel knows of threads; a trait so that tests need no processes.
pub trait Kernel {
    /// Its state; `None` if it is gone.
    fn state(&self, pid: u32, tid: u32) -> Option<ThreadState>;
    /// The call it sleeps in.
    fn call(&self, pid: u32, tid: u32) -> Option<SystemCall>;
}

/// The real one.
#[derive(Clone, Copy, Debug)]
pub struct Proc;

impl Kernel for Proc {
    fn state(&self, pid: u32, tid: u32) -> Option<ThreadState> {
        processes::thread_state(pid, tid)
    }

    fn call(&self, pid: u32, tid: u32) -> Option<SystemCall> {
        processes::system_call(pid, tid)
    }
}

/// A watch over one replay.
#[derive(Debug)]
pub struct Watch {
    totals: Vec<u64>,
    have_calls: Vec<bool>,
    derived: bool,
    outside_max: Duration,
    working_max: Duration,
    /// What the detector of races has done, as the slots tell.
    detected: u64,
    /// Processor time of the busiest thread since the last event, as long as the detector worked.
    working: Duration,
    /// By how much longer than that nobody computed meanwhile.
    resting: Duration,
    progress: u64,
    since: Instant,
    looked: Instant,
    rest_since: Option<Instant>,
    /// Of each thread that ran when the standstill began: its processor time then, and how long it has slept.
    running: Vec<Option<Running>>,
    gone: Vec<bool>,
    active: Activity,
    /// A thread, and behind which of its events another replay was given up, because it waited there in vain.
    in_vain: Option<(u32, u64)>,
    /// Since when nobody has completed anything, whoever works.
    still_since: Instant,
}

/// What a replay does that no record tells of.
#[derive(Clone, Copy, Debug)]
struct Activity {
    start: Instant,
    last: Instant,
    written: u64,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    ticks: u64,
    rest: Option<Rest>,
    /// How often it was looked at since, and how often it slept in a futex then.
    looks: u32,
    dozed: u32,
}

impl Running {
    fn new(ticks: u64) -> Self {
        Self { ticks, rest: None, looks: 0, dozed: 0 }
    }

    /// It sleeps most of the time, and never for long: between two looks at what it waits for.
    fn dozes(&self) -> bool {
        self.looks >= DOZE_LOOKS && self.dozed * 4 >= self.looks * 3
    }
}

/// A thread that sleeps, and since when it has had no processor time.
#[derive(Clone, Copy, Debug)]
struct Rest {
    ticks: u64,
    since: Instant,
}

impl Watch {
    /// Over a replay of threads with so many events each, whose recording took `recorded`; by a learnt order or not.
    pub fn new(totals: Vec<u64>, recorded: Duration, derived: bool, now: Instant) -> Self {
        let count = totals.len();
        let outside_max = OUTSIDE_MIN.max(recorded * 2);
        Self {
            totals,
            have_calls: vec![false; count],
            derived,
            outside_max,
            working_max: outside_max * WORKING,
            detected: 0,
            working: Duration::ZERO,
            resting: Duration::ZERO,
            progress: u64::MAX,
            since: now,
            looked: now,
            rest_since: None,
            running: vec![None; count],
            gone: vec![false; count],
            active: Activity { start: now, last: now, written: 0 },
            in_vain: None,
            still_since: now,
        }
    }

    /// Of each thread: whether it has to come to the end of its calls, too.
    #[must_use]
    pub fn with_calls(self, have_calls: Vec<bool>) -> Self {
        Self { have_calls, ..self }
    }

    /// The same, with so many bytes that the detector of races watches.
    #[must_use]
    pub fn watching(mut self, bytes: u64) -> Self {
        self.working_max += WORKING_PER_BYTE * u32::try_from(bytes).unwrap_or(u32::MAX);
        self
    }

    /// The same where it is known of a thread that it waits in vain behind one of its events.
    #[must_use]
    pub fn expecting(self, in_vain: Option<(u32, u64)>) -> Self {
        Self { in_vain, ..self }
    }

    /// Every recorded event has run.
    pub fn complete(&self, slots: &[TurnSlot]) -> bool {
        slots.iter().zip(&self.totals).all(|(slot, &total)| slot.events.load(Acquire) >= total)
    }

    /// The same of recorded calls. Who computes on behind its last event has some left; who is gone needs none.
    pub fn calls_complete(&self, slots: &[TurnSlot], kernel: &impl Kernel) -> bool {
        slots.iter().zip(&self.have_calls).filter(|(_, has)| **has).all(|(slot, _)| {
            let stands = matches!(slot.state.load(Acquire), turn::PARKED | turn::ENDED);
            stands || slot.is_done.load(Acquire) != 0 || !lives(slot, kernel)
        })
    }

    /// Looks at the threads once.
    pub fn look(&mut self, slots: &[TurnSlot], kernel: &impl Kernel, now: Instant) -> Verdict {
        let gap = self.leave_out_pause(now);
        let complete = self.complete(slots);
        let progress = slots
            .iter()
            .fold(0u64, |sum, slot| sum.wrapping_add(slot.events.load(Acquire)).wrapping_add(slot.calls.load(Relaxed)));
        if progress != self.progress {
            (self.progress, self.since, self.rest_since, self.still_since) = (progress, now, None, now);
            self.running.fill(None);
            self.gone.fill(false);
            (self.working, self.resting) = (Duration::ZERO, Duration::ZERO);
            return Verdict::Going;
        }
        if let Some(thread) = self.waits_in_vain(slots, now) {
            return Verdict::Stuck(Stuck::Spins { thread });
        }
        let is_looked_at = self.is_looked_at(slots, kernel, now, gap);
        if let Some(thread) = self.rests_in_vain(slots) {
            return Verdict::Stuck(Stuck::Spins { thread });
        }
        if is_looked_at {
            return Verdict::Going;
        }
        if let Some(thread) = self.vanished(slots, kernel) {
            return Verdict::Stuck(Stuck::Vanished { thread });
        }
        // A thread that was announced may never come: libc makes some only when a timer strikes.
        let may_come = self.standstill(now) < BIRTH_MAX;
        let comes = |slot: &TurnSlot| slot.tid.load(Relaxed) != 0 || may_come;
        // One that lets others come goes on by itself when nobody does.
        let goes_on = |slot: &TurnSlot| matches!(slot.state.load(Acquire), turn::RUNNING | turn::LAPSES);
        let runs = |slot: &&TurnSlot| goes_on(slot) && comes(slot) && lives(slot, kernel);
        let any_runs = slots.iter().any(|slot| runs(&slot));
        if complete && !any_runs {
            let rest_since = *self.rest_since.get_or_insert(now);
            return if now - rest_since >= REST { Verdict::AtEnd } else { Verdict::Going };
        }
        self.rest_since = None;
        if any_runs { self.look_at_running(slots, kernel, now) } else { self.look_at_waiting(slots, kernel, now) }
    }

    /// The thread that waits in vain as it did in another replay.
    fn waits_in_vain(&self, slots: &[TurnSlot], now: Instant) -> Option<u32> {
        let (thread, events) = self.in_vain.filter(|_| now - self.still_since >= IN_VAIN_MAX)?;
        slots.get(thread as usize).filter(|slot| slot.events.load(Acquire) == events).map(|_| thread)
    }

    /// Whether the detector of races works, and has not yet worked for longer than the program can have been busy: what a
    /// thread computes meanwhile is no spinning. Where all sleep most of the time, the detector is not what takes it: a lock
    /// in the program's own memory is waited for by looking at it, and sleeping in between.
    fn is_looked_at(&mut self, slots: &[TurnSlot], kernel: &impl Kernel, now: Instant, gap: Duration) -> bool {
        let looked = slots.iter().fold(0u64, |sum, slot| sum.wrapping_add(slot.looked.load(Relaxed)));
        if looked == std::mem::replace(&mut self.detected, looked) || self.working >= self.working_max {
            return false;
        }
        let (mut most, mut any_is_ready) = (0, false);
        for (running, slot) in self.running.iter_mut().zip(slots) {
            let runs = slot.state.load(Acquire) == turn::RUNNING && slot.tid.load(Relaxed) != 0;
            let state = || kernel.state(slot.pid.load(Relaxed), slot.tid.load(Relaxed));
            let state = runs.then(state).flatten();
            any_is_ready |= state.is_some_and(|state| matches!(state.letter, 'R' | 'D'));
            let new = state.map(|state| Running::new(state.ticks));
            if let (Some(before), Some(new)) = (&*running, &new) {
                most = most.max(new.ticks.saturating_sub(before.ticks));
            }
            *running = new;
        }
        let most = Duration::from_secs(most) / TICKS_PER_SECOND;
        self.working += most;
        let is_busy = any_is_ready || most >= gap / 2;
        self.resting = if is_busy { self.resting.saturating_sub(gap) } else { self.resting + gap };
        (self.since, self.rest_since) = (now, None);
        true
    }

    /// A thread that looks at memory again and again, in a replay that has rested for long.
    fn rests_in_vain(&self, slots: &[TurnSlot]) -> Option<u32> {
        let runs = |slot: &TurnSlot| slot.state.load(Acquire) == turn::RUNNING && slot.looked.load(Relaxed) != 0;
        (self.resting >= self.outside_max).then(|| slots.iter().position(runs)).flatten().map(|thread| thread as u32)
    }

    /// How long nothing has happened.
    pub fn standstill(&self, now: Instant) -> Duration {
        now - self.since
    }

    /// How long nothing has happened besides: nobody ran at a look, and `written`, the bytes that all have written, stood
    /// still.
    pub fn idle(&mut self, runs: bool, written: u64, now: Instant) -> Duration {
        if runs || written != self.active.written {
            (self.active.last, self.active.written) = (now, written);
        }
        (now - self.active.last).min(self.standstill(now))
    }

    /// How long the replay has been going on.
    pub fn elapsed(&self, now: Instant) -> Duration {
        now - self.active.start
    }

    /// How long threads may take outside recorded operations.
    pub fn patience_outside(&self) -> Duration {
        self.outside_max
    }

    /// Time in which this process did not run (stopped, or the machine suspended) proves nothing. How long ago it looked last.
    fn leave_out_pause(&mut self, now: Instant) -> Duration {
        let gap = now - std::mem::replace(&mut self.looked, now);
        if gap > PAUSE_MIN {
            self.since += gap;
            self.still_since += gap;
            self.rest_since = self.rest_since.map(|since| since + gap);
            for rest in self.running.iter_mut().flatten().filter_map(|running| running.rest.as_mut()) {
                rest.since += gap;
            }
        }
        gap.min(PAUSE_MIN)
    }

    /// A thread that is gone twice in a row: once may be the moment of its end.
    fn vanished(&mut self, slots: &[TurnSlot], kernel: &impl Kernel) -> Option<u32> {
        for (index, slot) in slots.iter().enumerate() {
            let state = slot.state.load(Acquire);
            if state == turn::UNBORN || slot.events.load(Acquire) >= self.totals[index] {
                continue;
            }
            let gone = !lives(slot, kernel);
            if std::mem::replace(&mut self.gone[index], gone) && gone {
                return Some(index as u32);
            }
        }
        None
    }

    fn look_at_waiting(&self, slots: &[TurnSlot], kernel: &impl Kernel, now: Instant) -> Verdict {
        let is_blocked = |slot: &TurnSlot| slot.state.load(Acquire) == turn::BLOCKED;
        let most = if slots.iter().any(is_blocked) { BLOCKED_MAX } else { WAITING_MAX };
        if self.standstill(now) < most || self.somebody_is_about_to_go(slots, kernel, now) {
            return Verdict::Going;
        }
        let find = |wanted: &dyn Fn(usize, &TurnSlot) -> bool| {
            slots.iter().enumerate().position(|(index, slot)| wanted(index, slot)).map(|thread| thread as u32)
        };
        let incomplete = |index: usize, slot: &TurnSlot| slot.events.load(Acquire) < self.totals[index];
        if let Some(thread) = find(&|index, slot| slot.state.load(Acquire) == turn::ENDED && incomplete(index, slot)) {
            return Verdict::Stuck(Stuck::Vanished { thread });
        }
        let waiting = find(&|_, slot| slot.state.load(Acquire) == turn::WAITING);
        let first = waiting.or_else(|| find(&incomplete));
        first.map_or(Verdict::Going, |thread| Verdict::Stuck(Stuck::AllWait { thread }))
    }

    /// A thread that could go on only gets no processor, or has not woken yet.
    fn somebody_is_about_to_go(&self, slots: &[TurnSlot], kernel: &impl Kernel, now: Instant) -> bool {
        let still = self.standstill(now);
        // The program has not come to its first instruction; whoever starts it sees its end.
        let is_unborn = |slot: &TurnSlot| slot.state.load(Acquire) == turn::UNBORN;
        if still < BIRTH_MAX && slots.iter().all(is_unborn) {
            return true;
        }
        slots.iter().any(|slot| {
            let (pid, tid) = (slot.pid.load(Relaxed), slot.tid.load(Relaxed));
            let runnable = || kernel.state(pid, tid).is_some_and(|state| matches!(state.letter, 'R' | 'D'));
            match slot.state.load(Acquire) {
                turn::RUNNING => tid == 0 && still < BIRTH_MAX,
                // One that looks now and then at what it waits for may see it as soon as it has a processor.
                turn::WAITING => runnable() || still < WAKING_MAX && self.may_go(slots, slot),
                turn::BLOCKED => runnable(),
                _ => false,
            }
        })
    }

    /// What it waits for is there; it only hasn't woken yet.
    ///
    /// By the reference rule `wants` is a timestamp, but at a process's end it is the other's number of events.
    fn may_go(&self, slots: &[TurnSlot], slot: &TurnSlot) -> bool {
        let (wants, other) = (slot.wants.load(Acquire), slot.waits_for.load(Acquire) as usize);
        let Some(awaited) = slots.get(other) else { return false };
        let counts = self.derived || wants == self.totals[other];
        if counts { awaited.events.load(Acquire) >= wants } else { awaited.awaited.next.load(Acquire) >= wants }
    }

    fn look_at_running(&mut self, slots: &[TurnSlot], kernel: &impl Kernel, now: Instant) -> Verdict {
        let still = self.standstill(now);
        let looks = slots.iter().any(|slot| slot.looks_for_passage.load(Acquire) != 0);
        let outside_max = if looks { self.outside_max * LOOKING } else { self.outside_max };
        let mut verdict = None;
        let (mut all, mut waited_enough) = (true, true);
        for (index, slot) in slots.iter().enumerate() {
            let (pid, tid) = (slot.pid.load(Relaxed), slot.tid.load(Relaxed));
            if slot.state.load(Acquire) != turn::RUNNING || tid == 0 {
                continue;
            }
            let Some(state) = kernel.state(pid, tid) else { continue };
            let call = kernel.call(pid, tid);
            // One that stopped itself waits as well: for whoever makes it go on.
            let sleeps = matches!(state.letter, 'S' | 'D' | 'T') && !waits_for_input(call, pid);
            let patience = self.patience(call, slots, pid);
            let seen = self.running[index].get_or_insert(Running::new(state.ticks));
            let burnt = Duration::from_secs(state.ticks.saturating_sub(seen.ticks)) / TICKS_PER_SECOND;
            let rest = seen.rest.filter(|rest| rest.ticks == state.ticks);
            seen.rest = sleeps.then(|| rest.unwrap_or(Rest { ticks: state.ticks, since: now }));
            let rested = seen.rest.map(|rest| now - rest.since);
            seen.looks += 1;
            seen.dozed += u32::from(state.letter == 'S' && call.is_some_and(|call| call.number == FUTEX));
            let dozes = burnt > Duration::ZERO && seen.dozes() && still >= outside_max * DOZING;
            let found = if burnt >= outside_max * 9 / 10 || dozes {
                Some(Stuck::Spins { thread: index as u32 })
            } else {
                waited_enough &= rested >= Some(patience);
                rested.filter(|&rested| rested >= outside_max).map(|_| Stuck::Sleeps { thread: index as u32 })
            };
            all &= found.is_some();
            // One that spins says more than one that sleeps; it may be what the sleeper waits for.
            if matches!(found, Some(Stuck::Spins { .. })) || verdict.is_none() {
                verdict = found.or(verdict);
            }
        }
        waited_enough |= matches!(verdict, Some(Stuck::Spins { .. }));
        match verdict.filter(|_| all && waited_enough && still >= outside_max) {
            Some(stuck) if !self.somebody_is_about_to_go(slots, kernel, now) => Verdict::Stuck(stuck),
            _ => Verdict::Going,
        }
    }

    /// How long a thread may sleep outside recorded operations. In most calls it waits for the world outside the
    /// recording, which may be slower this time.
    fn patience(&self, call: Option<SystemCall>, slots: &[TurnSlot], pid: u32) -> Duration {
        let alive = |slot: &TurnSlot| !matches!(slot.state.load(Acquire), turn::UNBORN | turn::ENDED);
        let alone = || slots.iter().all(|slot| slot.pid.load(Relaxed) == pid || !alive(slot));
        match call.map(|call| call.number) {
            Some(FUTEX) | None => self.outside_max,
            Some(WAIT4 | WAITID) if alone() => CHILDREN_MIN.max(self.outside_max * 2),
            Some(_) => WORLD_MIN.max(self.outside_max * 2),
        }
    }
}

fn lives(slot: &TurnSlot, kernel: &impl Kernel) -> bool {
    let (pid, tid) = (slot.pid.load(Relaxed), slot.tid.load(Relaxed));
    // Created, but its kernel thread has not told its id yet.
    tid == 0 || kernel.state(pid, tid).is_some()
}

/// A user at a terminal may take as long as he likes.
fn waits_for_input(call: Option<SystemCall>, pid: u32) -> bool {
    let Some(call) = call.filter(|call| call.number == READ) else { return false };
    let target = std::fs::read_link(format!("/proc/{pid}/fd/{}", call.first)).unwrap_or_default();
    target.starts_with("/dev/pts") || target.starts_with("/dev/tty")
}

#[cfg(test)]
mod tests;
