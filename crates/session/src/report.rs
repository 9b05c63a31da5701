//! The words of a divergence: what was recorded, what the program did instead,
//! where each thread stood, and what the likely cause is.

use crate::locate;
use crate::place::Places;
use crate::replay::Recorded;
use crate::shared::Shared;
use crate::signals;
use crate::supervise::Outcome;
use crate::watch::Stuck;
use relive_order::Kind;
use relive_trace::control::{Divergence, TurnSlot, cause, turn};
use relive_trace::manifest::Level;
use relive_trace::record::{LAPSES, instruction};
use relive_trace::recording::Recording;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// So many threads are listed.
const STANDS_MAX: usize = 16;
const NOT_RECORDED: &str = "an order that this level does not record (inline atomics, a hand-made lock, raw futex \
                            calls), or a data race";

const NOT_AT_THIS_LEVEL: &str = "this order was not recorded at this level";
/// What would, for a recording that does not order atomics, and for one that does.
const REMEDIES: [&str; 2] = [
    "; `relive record --level atomics` orders atomics, `--learn` data races as well",
    "; `relive record --learn` orders both",
];
/// What a recording without its environment does not have.
const NO_INPUTS: &str = "; or an input (time, files, sockets, signals): record it with --environment";

/// A divergence in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Which thread did what instead of what was recorded, and where.
    pub headline: String,
    /// Where each thread stood.
    pub stands: Vec<String>,
    /// What the likely cause is.
    pub likely: String,
    /// If a thread waits outside any recorded operation for what does not come: it, and how many events it has completed.
    pub in_vain: Option<(u32, u64)>,
}

/// What a report is made of; the replayed processes must still live.
pub(crate) struct Scene<'a> {
    recording: &'a Recording,
    shared: &'a Shared,
    derived: bool,
    names: Recorded,
    places: BTreeMap<u32, Places>,
}

fn call_name(number: u64) -> String {
    let instruction = || u16::try_from(number).ok().and_then(instruction::name);
    match relive_calls::find(number as usize).map(|call| call.name).or_else(instruction) {
        Some(name) => name.to_owned(),
        None if number == u64::MAX => "none".to_owned(),
        None => number.to_string(),
    }
}

impl<'a> Scene<'a> {
    pub(crate) fn new(recording: &'a Recording, shared: &'a Shared, derived: bool, recorded: Recorded) -> Self {
        Self { recording, shared, derived, names: recorded, places: BTreeMap::new() }
    }

    /// A divergence that a process reported.
    pub(crate) fn reported(mut self, d: &Divergence) -> Report {
        let (thread, event) = (d.thread.load(Relaxed), d.event.load(Relaxed));
        let (expected, found) = (d.expected.load(Relaxed), d.found.load(Relaxed));
        let did = kind_name(d.did.load(Relaxed));
        let total = self.total(thread);
        let number = event + 1;
        let (what, likely) = match d.cause.load(Relaxed) {
            cause::HASH => (
                format!(
                    "event {number} of {total}: within the last 256 events it did another kind of operation than recorded"
                ),
                NOT_RECORDED,
            ),
            cause::CLOCK => (
                format!(
                    "event {number} of {total}: {did} does not follow the operation that it followed in the recording \
                     (recorded time {expected}, object at {found})"
                ),
                NOT_RECORDED,
            ),
            cause::MORE_EVENTS => (format!("{did} after the last of its {total} recorded events"), NOT_RECORDED),
            cause::FEWER_EVENTS => (format!("it ended after {event} of {total} recorded events"), NOT_RECORDED),
            cause::MORE_THREADS => {
                (format!("event {number} of {total}: {did} of a thread that the recording does not have"), NOT_RECORDED)
            }
            cause::VALUE => (
                format!("event {number} of {total}: {did}, but the recording has the result of another operation here"),
                NOT_RECORDED,
            ),
            cause::BUSY => (
                format!("event {number} of {total}: {did}, but the object {:#x} is not free", d.object.load(Relaxed)),
                "somebody holds it who was not recorded, or a data race",
            ),
            cause::FAILED => (
                format!("event {number} of {total}: {did} returned {}, recorded was {}", found as i64, expected as i64),
                "the program's surroundings differ: limits, memory, files or input",
            ),
            cause::CALL => {
                let (found, expected) = (call_name(found), call_name(expected));
                (
                    format!("before event {number} of {total}: system call {found}, recorded was {expected}"),
                    NOT_RECORDED,
                )
            }
            cause::OUTPUT => {
                (format!("after event {event} of {total}: it writes other bytes than in the recording"), NOT_RECORDED)
            }
            cause::PASSED => (
                format!("after event {event} of {total}: it writes other bytes to a file than in the recording"),
                "another thread fills what it writes meanwhile, or a data race",
            ),
            cause::KILLED => (crashed(event, total, found), NOT_RECORDED),
            cause::SHARED => (
                format!("event {number} of {total}: it shares writable memory with the processes that it makes"),
                "none: such a process can't be replayed alone; leave out --process",
            ),
            cause::ADDRESS => (
                format!("before event {number} of {total}: memory that was at {expected:#x} can't be had there"),
                "another address layout: limits, environment or libraries differ, or layout randomisation is on",
            ),
            _ => (format!("event {number} of {total}: its recorded stream is damaged"), "a bug in relive"),
        };
        let of_call = matches!(d.cause.load(Relaxed), cause::CALL | cause::OUTPUT | cause::PASSED);
        let place = self.met_at(thread, d.place.load(Relaxed), of_call);
        self.finish(thread, &what, place, likely.to_owned())
    }

    /// What the watch found.
    pub(crate) fn stuck(mut self, stuck: Stuck) -> Report {
        let (Stuck::AllWait { thread }
        | Stuck::Spins { thread }
        | Stuck::Sleeps { thread }
        | Stuck::GoesOn { thread }
        | Stuck::Vanished { thread }) = stuck;
        let slot = &self.shared.turns()[thread as usize];
        let (event, total) = (slot.events.load(Acquire), self.total(thread));
        let place = self.place(slot);
        let at = place.as_deref().unwrap_or("an unknown place");
        let name = self.recording.name(thread);
        let outside = |does: &str| {
            let what = format!("after event {event} of {total}: {does} outside any recorded operation");
            (what, format!("thread {name} {does} at {at}: {NOT_AT_THIS_LEVEL}"))
        };
        let (what, likely) = match stuck {
            Stuck::AllWait { .. } => {
                let waits = self.state(slot);
                (format!("after event {event} of {total}: it {waits}, and nobody can go on"), NOT_RECORDED.to_owned())
            }
            Stuck::GoesOn { .. } => (
                format!("{} after the last of its {total} recorded events", kind_name(slot.kind.load(Relaxed))),
                NOT_RECORDED.to_owned(),
            ),
            Stuck::Spins { .. } => outside("spins"),
            Stuck::Sleeps { .. } => outside("blocks"),
            Stuck::Vanished { .. } => {
                (format!("it ended after {event} of {total} recorded events"), NOT_RECORDED.to_owned())
            }
        };
        let in_vain = matches!(stuck, Stuck::Spins { .. } | Stuck::Sleeps { .. }).then_some((thread, event));
        Report { in_vain, ..self.finish(thread, &what, place, likely) }
    }

    /// The process ended in another way than recorded.
    pub(crate) fn ended(mut self, recorded: Outcome, found: Outcome) -> Report {
        let headline = format!("it {}, the recording {}", describe(found), describe(recorded));
        let likely = self.with_remedies(NOT_RECORDED.to_owned());
        Report { headline, stands: self.stands(u32::MAX), likely, in_vain: None }
    }

    /// The process ended as recorded, but some thread had recorded events left.
    pub(crate) fn incomplete(self, totals: &[u64]) -> Option<Report> {
        let turns = self.shared.turns();
        let thread = turns.iter().zip(totals).position(|(slot, &total)| slot.events.load(Acquire) < total)? as u32;
        let (event, total) = (turns[thread as usize].events.load(Acquire), self.total(thread));
        Some(self.finish(
            thread,
            &format!("it ended after {event} of {total} recorded events"),
            None,
            NOT_RECORDED.into(),
        ))
    }

    fn finish(mut self, thread: u32, what: &str, place: Option<String>, likely: String) -> Report {
        let at = place.map(|place| format!(", at {place}")).unwrap_or_default();
        let headline = format!("thread {}, {what}{at}", self.recording.name(thread));
        let likely = self.with_remedies(likely);
        Report { headline, stands: self.stands(thread), likely, in_vain: None }
    }

    /// What orders more; and which way a program goes depends on its inputs, too.
    fn with_remedies(&self, likely: String) -> String {
        let manifest = &self.recording.manifest;
        if likely != NOT_RECORDED && !likely.ends_with(NOT_AT_THIS_LEVEL) {
            return likely;
        }
        let remedy = REMEDIES[usize::from(manifest.level == Level::Atomics)];
        likely + remedy + if manifest.environment_recorded { "" } else { NO_INPUTS }
    }

    fn stands(&mut self, except: u32) -> Vec<String> {
        let live = |slot: &TurnSlot| !matches!(slot.state.load(Acquire), turn::UNBORN | turn::ENDED);
        let turns = self.shared.turns();
        let mut threads: Vec<u32> =
            (0..turns.len() as u32).filter(|&index| index != except && live(&turns[index as usize])).collect();
        // Those that have done all may be of processes that have ended.
        threads.sort_by_key(|&index| {
            let slot = &turns[index as usize];
            (slot.events.load(Acquire) >= self.total(index), slot.state.load(Acquire) != turn::WAITING)
        });
        let mut lines: Vec<String> = threads.iter().take(STANDS_MAX).map(|&index| self.stand(index)).collect();
        if let Some(more) = threads.len().checked_sub(STANDS_MAX).filter(|&more| more > 0) {
            lines.push(format!("and {more} more threads"));
        }
        lines
    }

    fn stand(&mut self, thread: u32) -> String {
        let slot = &self.shared.turns()[thread as usize];
        let (events, total) = (slot.events.load(Acquire), self.total(thread));
        let state = self.state(slot);
        let at = self.place(slot).map(|place| format!(", at {place}")).unwrap_or_default();
        format!("thread {}: {events} of {total} events, {state}{at}", self.recording.name(thread))
    }

    fn state(&self, slot: &TurnSlot) -> String {
        match slot.state.load(Acquire) {
            turn::RUNNING => "runs".to_owned(),
            turn::WAITING => format!("waits with {} {}", kind_name(slot.kind.load(Relaxed)), self.awaited(slot)),
            turn::BLOCKED => "is blocked".to_owned(),
            turn::LAPSES => "lets others come to where they were".to_owned(),
            turn::PARKED => "has come to the end of the recording".to_owned(),
            _ => "stands at a divergence".to_owned(),
        }
    }

    /// By the reference rule `wants` is a timestamp, otherwise (and at a process's end) a number of events.
    fn awaited(&self, slot: &TurnSlot) -> String {
        let (other, wants) = (slot.waits_for.load(Relaxed), slot.wants.load(Relaxed));
        let Some(stream) = self.recording.thread(other) else { return "for a thread that was not recorded".to_owned() };
        if wants & LAPSES != 0 {
            return format!("for thread {} to let time pass", self.recording.name(other));
        }
        let done = self.shared.turns()[other as usize].events.load(Acquire);
        let until = stream.index().events_until(wants.saturating_sub(1));
        let event = if self.derived || until <= done { wants } else { until };
        format!("for event {event} of thread {}", self.recording.name(other))
    }

    fn total(&self, thread: u32) -> u64 {
        self.recording.thread(thread).map_or(0, |thread| thread.events)
    }

    /// Where a thread met its divergence: at a call of the program's with this return address, or where its stack says
    /// that it is, as where it was `in_call` of the C library's that one of its own functions made.
    fn met_at(&mut self, thread: u32, address: u64, in_call: bool) -> Option<String> {
        let slot = self.shared.turns().get(thread as usize)?;
        let (pid, tid) = (slot.pid.load(Relaxed), slot.tid.load(Relaxed));
        let places = self.places_of(pid);
        if address == 0 || in_call && !places.is_of_program(address) {
            locate::thread(places, pid, tid)
        } else {
            places.of_call(address)
        }
    }

    fn place(&mut self, slot: &TurnSlot) -> Option<String> {
        let (pid, tid) = (slot.pid.load(Relaxed), slot.tid.load(Relaxed));
        if slot.state.load(Acquire) == turn::RUNNING {
            return locate::thread(self.places_of(pid), pid, tid);
        }
        let address = slot.place.load(Relaxed);
        self.places_of(pid).of_call(address)
    }

    fn places_of(&mut self, pid: u32) -> &mut Places {
        self.places.entry(pid).or_insert_with(|| Places::of(pid).known_as(&self.names))
    }
}

fn kind_name(code: u32) -> &'static str {
    Kind::from_code(code as u8).map_or("an operation", Kind::name)
}

/// What a process did that the recording has end by itself.
fn crashed(event: u64, total: u64, signal: u64) -> String {
    let signal = signals::name(signal as i32);
    format!("after event {event} of {total}: it was killed by {signal}, which it was not then")
}

fn describe(outcome: Outcome) -> String {
    match outcome {
        Outcome::Exited(code) => format!("exited with {code}"),
        Outcome::Killed(signal) => format!("was killed by {}", signals::name(signal)),
    }
}
