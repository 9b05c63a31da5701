//! A report as one JSON object, for programs.
//!
//! The shape is published as a JSON Schema, `docs/races.schema.json`, which a test holds
//! against what is written here. Addresses, offsets and values are strings like `"0x1f"`,
//! because numbers beyond 2^53 do not survive every reader.

use crate::names::Frame;
use crate::raw::{AccessKind, Certainty, NO_THREAD, RaceKind, RawSegments, RawStored, RawUnobserved, Setting};
use crate::report::{Access, Block, Counts, Lock, Object, Origin, Race, Report, Sync};
use crate::text::digits;
use serde::Serialize;

impl Report {
    /// The report as JSON, one object, without a newline at its end.
    ///
    /// # Panics
    /// Never: strings and numbers can always be written.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(&Document::new(self)).expect("strings and numbers")
    }
}

#[derive(Serialize)]
struct Document<'a> {
    races: Vec<RaceJson<'a>>,
    counts: CountsJson,
    unobserved: Vec<UnobservedJson<'a>>,
    diverged: Option<DivergedJson<'a>>,
    complete: bool,
    segments: Option<SegmentsJson>,
    unplaced: UnplacedJson,
    advice: &'a [String],
    unused_suppressions: &'a [String],
}

#[derive(Serialize)]
struct CountsJson {
    certain: usize,
    after_first: usize,
    possible: usize,
    atomic: usize,
    suppressed: usize,
}

#[derive(Serialize)]
struct SegmentsJson {
    exact: StoredJson,
    snooped: StoredJson,
}

#[derive(Serialize)]
struct StoredJson {
    created: u64,
    stored_max: u64,
    bytes_max: u64,
    compared: u64,
}

impl SegmentsJson {
    fn new(segments: RawSegments) -> Self {
        let stored = |RawStored { created, stored_max, bytes_max, compared }| StoredJson {
            created,
            stored_max,
            bytes_max,
            compared,
        };
        Self { exact: stored(segments.exact), snooped: stored(segments.snooped) }
    }
}

#[derive(Serialize)]
struct UnplacedJson {
    bytes: u64,
    certain: bool,
}

#[derive(Serialize)]
struct UnobservedJson<'a> {
    what: &'a str,
    count: u64,
}

#[derive(Serialize)]
struct DivergedJson<'a> {
    thread: Option<String>,
    event: Option<u64>,
    what: &'a str,
}

#[derive(Serialize)]
struct RaceJson<'a> {
    id: usize,
    fingerprint: &'a str,
    certainty: &'static str,
    reason: Option<&'static str>,
    kind: &'static str,
    summary: String,
    address: String,
    size: u64,
    bytes: String,
    bytes_in_all: u64,
    object: ObjectJson<'a>,
    count: u64,
    accesses: Vec<AccessJson<'a>>,
    suppressed: Option<&'a str>,
    suppression: Option<&'a str>,
}

#[derive(Serialize)]
struct ObjectJson<'a> {
    kind: &'static str,
    name: Option<&'a str>,
    start: Option<String>,
    size: Option<u64>,
    offset: Option<u64>,
    module: Option<&'a str>,
    function: Option<&'a str>,
    thread: Option<String>,
    declared: Option<DeclaredJson<'a>>,
    allocated: Option<OriginJson<'a>>,
    freed: Option<OriginJson<'a>>,
}

#[derive(Serialize)]
struct DeclaredJson<'a> {
    file: &'a str,
    line: u64,
}

#[derive(Serialize)]
struct OriginJson<'a> {
    thread: Option<String>,
    stack: Vec<FrameJson<'a>>,
}

#[derive(Serialize)]
struct AccessJson<'a> {
    thread: String,
    thread_number: u32,
    thread_label: Option<&'a str>,
    kind: &'static str,
    setting: &'static str,
    signal: Option<u32>,
    address: String,
    size: u64,
    value: Option<String>,
    value_text: Option<String>,
    racing_bytes: Option<String>,
    event: u64,
    count_since_event: u64,
    counter: String,
    stack: Vec<FrameJson<'a>>,
    locks: Vec<LockJson<'a>>,
    before: Option<SyncJson<'a>>,
    after: Option<SyncJson<'a>>,
    created_by: Option<String>,
    created_at: Vec<FrameJson<'a>>,
}

#[derive(Serialize)]
struct FrameJson<'a> {
    function: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<u32>,
    column: Option<u32>,
    module: Option<&'a str>,
    offset: String,
    inlined: bool,
}

#[derive(Serialize)]
struct LockJson<'a> {
    address: String,
    name: Option<&'a str>,
    shared: bool,
    taken_at: Vec<FrameJson<'a>>,
}

#[derive(Serialize)]
struct SyncJson<'a> {
    event: u64,
    operation: &'a str,
    object: Option<String>,
    name: Option<&'a str>,
}

fn hex(number: u64) -> String {
    format!("{number:#x}")
}

fn stack(frames: &[Frame]) -> Vec<FrameJson<'_>> {
    frames.iter().map(FrameJson::new).collect()
}

impl<'a> FrameJson<'a> {
    fn new(frame: &'a Frame) -> Self {
        Self {
            function: frame.function.as_deref(),
            file: frame.file.as_deref(),
            line: frame.line,
            column: frame.column,
            module: frame.module.as_deref(),
            offset: hex(frame.offset),
            inlined: frame.inlined,
        }
    }
}

impl<'a> Document<'a> {
    fn new(report: &'a Report) -> Self {
        let Counts { certain, after_first, possible, atomic, suppressed } = report.counts();
        let unobserved = |one: &'a RawUnobserved| UnobservedJson { what: &one.what, count: one.count };
        Self {
            races: report.races.iter().map(|race| RaceJson::new(report, race)).collect(),
            counts: CountsJson { certain, after_first, possible, atomic, suppressed },
            unobserved: report.unobserved.iter().map(unobserved).collect(),
            diverged: report.diverged.as_ref().map(|diverged| {
                // What tells it in words alone has no number either.
                let known = diverged.thread != NO_THREAD;
                DivergedJson {
                    thread: known.then(|| thread(report, diverged.thread)),
                    event: known.then_some(diverged.event),
                    what: &diverged.what,
                }
            }),
            complete: report.complete && report.diverged.is_none(),
            segments: report.segments.map(SegmentsJson::new),
            unplaced: UnplacedJson { bytes: report.unplaced.bytes, certain: report.unplaced.certain },
            advice: &report.advice,
            unused_suppressions: &report.unused,
        }
    }
}

impl<'a> RaceJson<'a> {
    fn new(report: &'a Report, race: &'a Race) -> Self {
        Self {
            id: race.number,
            fingerprint: &race.fingerprint,
            certainty: certainty(race.certainty),
            reason: race.doubt,
            kind: race_kind(race.kind),
            summary: crate::text::headline(race),
            address: hex(race.address),
            size: race.size(),
            bytes: hex(race.bytes),
            bytes_in_all: race.bytes_in_all(),
            object: ObjectJson::new(report, race),
            count: race.count,
            accesses: race.accesses.iter().map(|access| AccessJson::new(report, race, access)).collect(),
            suppressed: race.suppressed.as_deref(),
            suppression: race.suppression.as_deref(),
        }
    }
}

impl<'a> ObjectJson<'a> {
    fn new(report: &'a Report, race: &'a Race) -> Self {
        let unknown = Self {
            kind: "unknown",
            name: race.object.name().or(race.member.as_deref()),
            start: None,
            size: None,
            offset: None,
            module: None,
            function: None,
            thread: None,
            declared: None,
            allocated: None,
            freed: None,
        };
        match &race.object {
            Object::Unknown => unknown,
            Object::Global(global) => {
                let found = Self { kind: "global", module: Some(&global.module), ..unknown };
                if global.name.is_none() {
                    return Self { offset: Some(global.offset), ..found };
                }
                found.placed(race.address, global.start, global.size, global.declared.as_ref())
            }
            Object::Stack { thread: owner, local } => {
                let found = Self { kind: "stack", thread: Some(thread(report, *owner)), ..unknown };
                let Some(local) = local else { return found };
                let found = Self { function: Some(&local.function), ..found };
                found.placed(race.address, local.start, local.size, local.declared.as_ref())
            }
            Object::ThreadLocal { thread: owner, variable } => {
                let found = Self { kind: "thread-local", thread: Some(thread(report, *owner)), ..unknown };
                let Some(global) = variable else { return found };
                let found = Self { module: Some(&global.module), ..found };
                found.placed(race.address, global.start, global.size, global.declared.as_ref())
            }
            Object::Heap(Block { start, size, allocated, freed }) => {
                let origin = |origin: &'a Origin| OriginJson {
                    thread: origin.thread.map(|number| thread(report, number)),
                    stack: stack(&origin.stack),
                };
                let (allocated, freed) = (Some(origin(allocated)), freed.as_ref().map(origin));
                Self { kind: "heap", allocated, freed, ..unknown }.placed(race.address, *start, *size, None)
            }
        }
    }

    fn placed(self, address: u64, start: u64, size: u64, declared: Option<&'a (String, u64)>) -> Self {
        Self {
            start: Some(hex(start)),
            size: Some(size),
            offset: address.checked_sub(start),
            declared: declared.map(|(file, line)| DeclaredJson { file, line: *line }),
            ..self
        }
    }
}

impl<'a> AccessJson<'a> {
    fn new(report: &'a Report, race: &'a Race, access: &'a Access) -> Self {
        let known = report.thread(access.thread);
        let (setting, signal) = setting(access.setting);
        Self {
            thread: thread(report, access.thread),
            thread_number: access.thread,
            thread_label: known.map(|thread| thread.label.as_str()).filter(|label| !label.is_empty()),
            kind: access_kind(access.kind),
            setting,
            signal,
            address: hex(access.address),
            size: access.size,
            value: access.value.map(hex),
            value_text: race.value(access),
            racing_bytes: (!access.content.is_empty()).then(|| digits(&access.content, "")),
            event: access.event,
            count_since_event: access.count_since_event,
            counter: hex(access.counter),
            stack: stack(&access.stack),
            locks: access.locks.iter().map(LockJson::new).collect(),
            before: access.before.as_ref().map(SyncJson::new),
            after: access.after.as_ref().map(SyncJson::new),
            created_by: known.and_then(|known| known.creator).map(|creator| thread(report, creator)),
            created_at: known.map(|known| stack(&known.created)).unwrap_or_default(),
        }
    }
}

impl<'a> LockJson<'a> {
    fn new(lock: &'a Lock) -> Self {
        let taken_at = stack(&lock.taken);
        Self { address: hex(lock.address), name: lock.name.as_deref(), shared: lock.shared, taken_at }
    }
}

impl<'a> SyncJson<'a> {
    fn new(sync: &'a Sync) -> Self {
        let object = (sync.object != 0).then(|| hex(sync.object));
        Self { event: sync.event, operation: &sync.operation, object, name: sync.name.as_deref() }
    }
}

/// The thread's name, or its number where nobody told the name.
fn thread(report: &Report, number: u32) -> String {
    report.thread(number).map_or_else(|| format!("#{number}"), |thread| thread.name.clone())
}

/// The class of a race as programs know it.
pub(crate) const fn certainty(certainty: Certainty) -> &'static str {
    match certainty {
        Certainty::Certain => "certain",
        Certainty::AfterFirst => "after-first",
        Certainty::PossibleAtomic => "possible-atomic",
    }
}

/// The kind of a race as programs know it.
pub(crate) const fn race_kind(kind: RaceKind) -> &'static str {
    match kind {
        RaceKind::Data => "data-race",
        RaceKind::Free => "race-with-free",
        RaceKind::UseAfterFree => "use-after-free",
    }
}

const fn access_kind(kind: AccessKind) -> &'static str {
    match kind {
        AccessKind::Read => "read",
        AccessKind::Write => "write",
        AccessKind::AtomicRead => "atomic-read",
        AccessKind::AtomicWrite => "atomic-write",
        AccessKind::Free => "free",
    }
}

const fn setting(setting: Setting) -> (&'static str, Option<u32>) {
    match setting {
        Setting::Ordinary => ("ordinary", None),
        Setting::Constructor => ("constructor", None),
        Setting::Exit => ("exit", None),
        Setting::Signal(number) => ("signal", Some(number)),
    }
}

#[cfg(test)]
mod tests;
