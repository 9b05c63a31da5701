//! A report: races with names, each pair of source places once for each variable, certain ones first.
//!
//! Made from [`RawReport`] in this order: unwind ([`crate::locate`]), name everything
//! (`naming`), leave out what is meant as atomic (`atomics`), hide what is suppressed, put races of
//! the same pair of places together (`grouping`), number the rest.

mod atomics;
mod grouping;
mod naming;

use crate::annotations::Annotations;
use crate::fingerprint;
use crate::names::{Base, DEBUG_ROOT, Frame, Global, Local};
use crate::raw::{
    AccessKind, Certainty, RaceKind, RawDivergence, RawReport, RawSegments, RawUnobserved, RawUnplaced, Setting,
};
use crate::suppressions::{self, Subject, Suppressions};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// What a report is made with.
#[derive(Clone, Debug)]
pub struct Options {
    /// What nobody wants to hear of.
    pub suppressions: Suppressions,
    /// What the user knows of variables and functions.
    pub annotations: Annotations,
    /// Where debug information is looked for besides the modules themselves.
    pub debug_roots: Vec<PathBuf>,
    /// Modules whose files are now elsewhere: path in the recording, path now.
    pub relocated: Vec<(PathBuf, PathBuf)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            suppressions: Suppressions::default(),
            annotations: Annotations::default(),
            debug_roots: vec![DEBUG_ROOT.into()],
            relocated: Vec::new(),
        }
    }
}

/// What one replay found, for people and programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The races: certain ones, then those after the first race, then possible ones, then suppressed ones.
    pub races: Vec<Race>,
    /// The threads that they name.
    pub threads: Vec<Thread>,
    /// Racing bytes of which debug information says that their accesses are atomic operations: an address and
    /// which bytes from there on. Another replay that takes them for synchronisation finds no races that these
    /// order.
    pub atomics: Vec<(u64, u64)>,
    /// Instructions whose accesses are said to be atomic operations, whatever block of the heap they are made to. Likewise.
    pub atomic_instructions: Vec<u64>,
    /// How many pairs of source places are those of such bytes: no races.
    pub atomic_pairs: usize,
    /// What could not be observed.
    pub unobserved: Vec<RawUnobserved>,
    /// Where the replay left its recording.
    pub diverged: Option<RawDivergence>,
    /// The replay came to the end of its findings.
    pub complete: bool,
    /// What a detector that keeps segments would have kept, if that was counted.
    pub segments: Option<RawSegments>,
    /// Racing bytes of which no race was told.
    pub unplaced: RawUnplaced,
    /// What would give better names, one line each.
    pub advice: Vec<String>,
    /// Rules that hid nothing, each with its file and line.
    pub unused: Vec<String>,
}

/// How many races there are of each sort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Before any other race.
    pub certain: usize,
    /// After the first race.
    pub after_first: usize,
    /// Perhaps meant as atomics.
    pub possible: usize,
    /// Known to be atomic operations: not among the races.
    pub atomic: usize,
    /// Hidden by a rule, whatever their certainty.
    pub suppressed: usize,
}

/// What a report comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No race, or only possible and suppressed ones.
    Clean,
    /// Races.
    Races,
    /// No race, but the replay left its recording, or died, before it had seen everything.
    Unfinished,
}

/// All races of one pair of source places and one variable; the rest is said of the first of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Race {
    /// From 1 on.
    pub number: usize,
    /// What stays the same in another recording and after changes elsewhere; see [`crate::fingerprint`].
    pub fingerprint: String,
    /// What happened.
    pub kind: RaceKind,
    /// How sure it is.
    pub certainty: Certainty,
    /// Why both may be atomic operations, and so no race, for all that is known.
    pub doubt: Option<&'static str>,
    /// The first racing byte.
    pub address: u64,
    /// The racing bytes: bit `i` stands for the byte at `address + i`.
    pub bytes: u64,
    /// All bytes for which accesses in these places race, by their lines (an address divided by 64).
    pub lines: BTreeMap<u64, u64>,
    /// What lies there.
    pub object: Object,
    /// Where that is no variable: the type that the code takes it for that races, and the part of it: `node.next`.
    pub member: Option<String>,
    /// What that part holds, if it is a number or the like.
    pub base: Option<Base>,
    /// How often.
    pub count: u64,
    /// Both accesses, in the order of the replay.
    pub accesses: [Access; 2],
    /// The rule that hides it, as written.
    pub suppressed: Option<String>,
    /// A rule that would.
    pub suppression: Option<String>,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// Its index in the recording.
    pub number: u32,
    /// Its name in the tree of threads.
    pub name: String,
    /// What the program calls it; may be empty.
    pub label: String,
    /// Who created it.
    pub creator: Option<u32>,
    /// Where.
    pub created: Vec<Frame>,
}

/// One of two accesses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Who.
    pub thread: u32,
    /// How many recorded events the thread had behind it.
    pub event: u64,
    /// The instruction's address in the replayed process; where our own library did it for the program, the address
    /// to which the program's call returns.
    pub counter: u64,
    /// How often the thread had come to it since that event.
    pub count_since_event: u64,
    /// What it did.
    pub kind: AccessKind,
    /// It is one to a variable that is atomic by its type, as far as anybody asked.
    pub typed_atomic: bool,
    /// The first byte that it touched.
    pub address: u64,
    /// How many bytes; 0 if that is not known.
    pub size: u64,
    /// What was read or written, if it has eight bytes or fewer.
    pub value: Option<u64>,
    /// Else, of the bytes that race, the first ones side by side, as they were read or written; empty if not known.
    pub content: Vec<u8>,
    /// What the thread was in the middle of.
    pub setting: Setting,
    /// Where, innermost first.
    pub stack: Vec<Frame>,
    /// What it held.
    pub locks: Vec<Lock>,
    /// Its last synchronisation before.
    pub before: Option<Sync>,
    /// Its first one after.
    pub after: Option<Sync>,
}

/// A lock that was held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// The lock object.
    pub address: u64,
    /// Its name, if it is a variable.
    pub name: Option<String>,
    /// Held for reading.
    pub shared: bool,
    /// Where it was taken.
    pub taken: Vec<Frame>,
}

/// An operation of synchronisation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sync {
    /// The event's number in its thread.
    pub event: u64,
    /// What it was.
    pub operation: String,
    /// The object, or 0.
    pub object: u64,
    /// The object's name, if it is a variable.
    pub name: Option<String>,
}

/// What lies at the racing bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Object {
    /// Nothing that is known.
    #[default]
    Unknown,
    /// A variable with a fixed address, or another part of a module.
    Global(Global),
    /// A part of a thread's stack.
    Stack {
        /// Whose.
        thread: u32,
        /// The variable.
        local: Option<Local>,
    },
    /// A part of what a thread has of thread-local variables.
    ThreadLocal {
        /// Whose.
        thread: u32,
        /// The variable.
        variable: Option<Global>,
    },
    /// A block of the heap.
    Heap(Block),
}

/// A block of the heap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// First address.
    pub start: u64,
    /// Bytes that the program asked for.
    pub size: u64,
    /// Who allocated it.
    pub allocated: Origin,
    /// Who gave it back.
    pub freed: Option<Origin>,
}

/// Who did something to a block, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The thread, if it is known.
    pub thread: Option<u32>,
    /// Where; may be empty.
    pub stack: Vec<Frame>,
}

impl Object {
    /// The name of a variable.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Global(global) | Self::ThreadLocal { variable: Some(global), .. } => global.name.as_deref(),
            Self::Stack { local, .. } => local.as_ref().map(|local| local.name.as_str()),
            Self::Unknown | Self::Heap(_) | Self::ThreadLocal { variable: None, .. } => None,
        }
    }

    /// What the part of a variable holds.
    fn base(&self) -> Option<&Base> {
        match self {
            Self::Global(global) | Self::ThreadLocal { variable: Some(global), .. } => global.base.as_ref(),
            Self::Stack { local, .. } => local.as_ref()?.base.as_ref(),
            Self::Unknown | Self::Heap(_) | Self::ThreadLocal { variable: None, .. } => None,
        }
    }

    /// The name of the whole variable, without the part of it.
    pub fn variable(&self) -> Option<&str> {
        match self {
            Self::Global(global) | Self::ThreadLocal { variable: Some(global), .. } => global.whole(),
            Self::Stack { local, .. } => local.as_ref().map(Local::whole),
            Self::Unknown | Self::Heap(_) | Self::ThreadLocal { variable: None, .. } => None,
        }
    }
}

impl Race {
    /// Bytes from the first racing one to the last.
    pub fn size(&self) -> u64 {
        u64::from(u64::BITS - self.bytes.leading_zeros())
    }

    /// How many bytes race in these places.
    pub fn bytes_in_all(&self) -> u64 {
        self.lines.values().map(|bytes| u64::from(bytes.count_ones())).sum()
    }

    /// What one of its accesses read or wrote, as the type of the variable says.
    pub fn value(&self, access: &Access) -> Option<String> {
        let base = self.object.base().or(self.base.as_ref())?;
        let is_whole = access.address.checked_add(base.before) == Some(self.address) && access.size == base.size;
        access.value.filter(|_| is_whole).map(|bits| base.text(bits))
    }

    /// The frames of both accesses.
    pub fn stacks(&self) -> [&[Frame]; 2] {
        [&self.accesses[0].stack, &self.accesses[1].stack]
    }
}

impl Report {
    /// Names, groups, hides and numbers what was found.
    pub fn new(raw: &RawReport, options: &Options) -> Self {
        let raw = &crate::locate::located(raw, &options.relocated);
        let namers: Vec<_> = raw.all_images().map(|image| naming::Namer::new(image, options)).collect();
        let races = namers.iter().flat_map(naming::Namer::races);
        let (atomic, mut races): (Vec<Race>, Vec<Race>) =
            races.partition(|race| atomics::are_both(race, &options.annotations));
        let atomics = atomic.iter().map(|race| (race.address, race.bytes)).collect();
        let atomic_instructions = atomics::instructions(&atomic);
        let rules = options.suppressions.rules();
        let mut used = vec![false; rules.len()];
        for race in &mut races {
            let data = [race.object.name(), race.object.variable()];
            let subject = Subject { stacks: race.stacks(), data };
            let rule = options.suppressions.matching(&subject);
            if let Some(rule) = rule {
                race.suppressed = Some(rules[rule].to_string());
                used[rule] = true;
            } else {
                race.suppressed = options.annotations.benign(race);
            }
        }
        let mut races = grouping::group(races);
        for race in &mut races {
            race.doubt = atomics::doubt(race);
            race.suppression = suppressions::suggestion(race.stacks(), race.object.variable());
            race.fingerprint = fingerprint::of(race);
        }
        races.sort_by_key(|race| (race.suppressed.is_some(), race.certainty));
        races.iter_mut().enumerate().for_each(|(index, race)| race.number = index + 1);
        let about_races = |rule: &suppressions::Rule| !matches!(rule.kind, suppressions::RuleKind::Other(_));
        // Where nothing is shown nobody misses a name.
        let advisers = if races.iter().any(|race| race.suppressed.is_none()) { &namers[..] } else { &[] };
        let advice: BTreeSet<_> = advisers.iter().flat_map(naming::Namer::advice).collect();
        let unused = rules.iter().zip(used).filter(|(rule, used)| !used && about_races(rule));
        Self {
            races,
            atomics,
            atomic_instructions,
            atomic_pairs: grouping::group(atomic).len(),
            threads: naming::threads(&namers),
            unobserved: raw.unobserved.clone(),
            diverged: raw.diverged.clone(),
            complete: raw.complete,
            segments: raw.segments,
            unplaced: raw.unplaced,
            advice: advice.into_iter().collect(),
            unused: unused.map(|(rule, _)| format!("{rule} ({}:{})", rule.file, rule.line)).collect(),
        }
    }

    /// The thread with this number.
    pub fn thread(&self, number: u32) -> Option<&Thread> {
        self.threads.iter().find(|thread| thread.number == number)
    }

    /// How many races of each sort.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts { atomic: self.atomic_pairs, ..Counts::default() };
        for race in &self.races {
            *match (&race.suppressed, race.certainty) {
                (Some(_), _) => &mut counts.suppressed,
                (None, Certainty::Certain) => &mut counts.certain,
                (None, Certainty::AfterFirst) => &mut counts.after_first,
                (None, Certainty::PossibleAtomic) => &mut counts.possible,
            } += 1;
        }
        counts
    }

    /// What it comes to. A possible race alone is no race; a race stays one if the replay diverged after it, and before
    /// it was met again.
    pub fn verdict(&self) -> Verdict {
        let counts = self.counts();
        if counts.certain + counts.after_first > 0 || self.unplaced.certain {
            Verdict::Races
        } else if self.diverged.is_some() || !self.complete {
            Verdict::Unfinished
        } else {
            Verdict::Clean
        }
    }
}

#[cfg(test)]
mod tests;
