//! Looks for data races in a recording, by two replays: the first learns which bytes
//! race, the second which accesses they are (`RecPlay`, section 5).
//!
//! Apart from the other replays because each leaves something for the next, in a folder
//! of its own.

mod first;
mod inner;
mod ordering;
mod segments;

use super::recorded::Recorded;
use super::{Ending, Instrument, ReplayError, Replayed, Replayer, Rule};
use crate::learnt::Learnt;
use crate::processes;
use first::{FirstTold, UNTOLD};
use ordering::Alone;
use relive_findings::locate::located;
use relive_findings::raw::{NO_THREAD, RawDivergence, RawReport, RawThread, RawUnobserved, RawUnplaced};
use relive_findings::{Options, Report, images, wire};
use relive_trace::control::flag;
use relive_trace::manifest::Accesses;
use relive_trace::races::word;
use relive_trace::races::{FOUND, LEARNT, TOLD, WATCH};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// One of the replays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Learns whether it goes as recorded, with nobody looking.
    Plain,
    /// Learns which bytes race.
    First,
    /// The same again, with each read of some lines: of those it was not known without whether they race.
    Unsure,
    /// The same again, with each read of all: of others, then.
    EachRead,
    /// The same again, with what threads hand over by the instructions that the recording orders.
    Hands,
    /// Watches them; so many.
    Second {
        /// Bytes that race.
        bytes: u64,
    },
    /// The same again, in the order of the timestamps: in the one before, threads waited for no more than they must, and
    /// it diverged.
    Again,
}

/// What else is wanted of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Besides {
    /// Segments are counted.
    pub segments: bool,
    /// All accesses that the recording could have ordered, also where none races.
    pub accesses: bool,
    /// No races: what races is looked for only where what threads hand over by brings no access that the recording does not
    /// order. Most of it would not race if the former were ordered.
    pub ordering_first: bool,
}

/// What both replays found.
#[derive(Debug)]
pub struct Hunt {
    /// The races, in addresses.
    pub found: RawReport,
    /// The signal by which the user ended it.
    pub interrupted: Option<i32>,
    /// The accesses to what races, or what is a synchronisation variable, which the recording could have ordered.
    pub learnt: Learnt,
    /// Whether threads hand over by those. Else they may just race.
    pub ordering: bool,
    /// Whether the recording replays as it is, where that was asked.
    pub replays: bool,
    pub(super) watched: Lines,
}

/// Where a replay left its recording, if it did.
fn headline(ending: &Ending) -> Option<String> {
    if let Ending::Diverged(report) = ending { Some(report.headline.clone()) } else { None }
}

/// Whether a replay came to the recording's end.
fn whole(ending: &Ending) -> bool {
    matches!(ending, Ending::AsRecorded(_) | Ending::RecordingEnds(_))
}

/// So often a recording must replay, where the search decides whether another one is made.
const ALONE: usize = 3;

impl Hunt {
    /// The user ended it by this signal before anything was found.
    fn nothing(signal: i32) -> Self {
        let (found, watched) = (RawReport::default(), Lines::default());
        Self { found, interrupted: Some(signal), learnt: Learnt::default(), ordering: false, replays: false, watched }
    }
}

impl Replayer {
    /// Looks for races, and for what is wanted `besides`. `tell` is called before each replay; `options` are those of the
    /// report to be made of it.
    ///
    /// # Errors
    /// [`ReplayError`] if it could not be started, or its folder can't be used.
    pub fn races(
        mut self,
        options: &Options,
        besides: Besides,
        tell: &mut dyn FnMut(Pass),
    ) -> Result<Hunt, ReplayError> {
        self.instrument.learning = besides.ordering_first;
        self.instrument.flags |= flag::SILENT;
        let times = if besides.ordering_first { ALONE } else { 1 };
        let alone = if besides.accesses { self.alone(times, tell)? } else { Alone::Unknown };
        match alone {
            Alone::Diverges { in_vain: None } => self.instrument.diverges = true,
            Alone::Diverges { in_vain } => self.instrument.in_vain = in_vain,
            Alone::Interrupted(signal) => return Ok(Hunt::nothing(signal)),
            Alone::Unknown | Alone::AsRecorded => {}
        }
        let (hunt, is_partial) = self.search(options, besides, &alone, tell)?;
        if !is_partial || !hunt.found.races.is_empty() {
            return Ok(hunt);
        }
        // Whether such a replay goes as recorded is chance: the next first one may, as the second one did.
        self.search(options, besides, &alone, tell).map(|(hunt, _)| hunt)
    }

    /// Both replays. `true` if the second one went further than the first, which had to find what the second one looks at.
    fn search(
        &mut self,
        options: &Options,
        besides: Besides,
        alone: &Alone,
        tell: &mut dyn FnMut(Pass),
    ) -> Result<(Hunt, bool), ReplayError> {
        let folder = Scratch::new().map_err(ReplayError::Races)?;
        let (first, told) = self.first(besides.segments, &folder, tell)?;
        let FirstTold { mut lines, mut missed, segments, untold, seen, .. } = told;
        if besides.ordering_first || matches!(alone, Alone::Diverges { .. }) {
            lines.hand_over(seen.handed());
        }
        let left_at = headline(&first.ending);
        if left_at.is_none() {
            lines.open.clear();
        }
        // Where the replay went another way, it was stopped.
        let complete = untold == 0 || left_at.is_some();
        if !complete {
            missed.push(RawUnobserved { what: UNTOLD.to_owned(), count: untold });
        }
        let bytes = lines.racing.values().chain(lines.open.values()).map(|bytes| u64::from(bytes.count_ones())).sum();
        let mut found = RawReport { complete, unobserved: missed, segments, ..RawReport::default() };
        let goes_on = !matches!(first.ending, Ending::Interrupted(_));
        let ordering = if goes_on && (besides.ordering_first || self.instrument.in_vain.is_some()) {
            self.ordering(&folder, &lines, &found, options, tell)?
        } else {
            None
        };
        let replays = matches!(alone, Alone::AsRecorded);
        let ordering = match ordering {
            Some(hunt) if besides.ordering_first || hunt.interrupted.is_some() => {
                return Ok((Hunt { replays, ..hunt }, false));
            }
            other => other.map(|hunt| hunt.learnt),
        };
        let wanted = bytes > 0 || besides.accesses && !lines.variables.is_empty();
        let (mut last, mut watched) = (first, lines);
        if wanted && goes_on {
            (found, last) = self.watched(&folder, &mut watched, &found, options, bytes, tell)?;
        }
        let is_partial = left_at.is_some() && whole(&last.ending);
        let left_at = headline(&last.ending).or(left_at);
        found.diverged = left_at.map(|what| RawDivergence { thread: NO_THREAD, event: 0, what });
        found.threads = self.threads(&found.threads);
        let interrupted = if let Ending::Interrupted(signal) = last.ending { Some(signal) } else { None };
        let learnt = ordering
            .unwrap_or(folder.learnt(self.known_unless(replays), &self.recorded()).map_err(ReplayError::Races)?);
        // What replays as it is needs no more order, which would make later recordings slower.
        let learns = besides.ordering_first || matches!(alone, Alone::Diverges { .. });
        let (ordering, learnt) = (false, if learns { learnt } else { Learnt::default() });
        Ok((Hunt { found, interrupted, learnt, ordering, replays, watched }, is_partial))
    }

    /// The second replay, and again where debug information or the user says of racing bytes that they are atomic: what they order is
    /// known only then.
    fn watched(
        &mut self,
        folder: &Scratch,
        lines: &mut Lines,
        before: &RawReport,
        options: &Options,
        bytes: u64,
        tell: &mut dyn FnMut(Pass),
    ) -> Result<(RawReport, Replayed), ReplayError> {
        let recorded = self.recorded();
        loop {
            folder.watch(lines).map_err(ReplayError::Races)?;
            tell(Pass::Second { bytes });
            let last = self.pass(flag::RACES_WATCHED, &folder.0, lines.bytes(), tell)?;
            let mut found = before.clone();
            let met = folder.told(&mut found, &recorded).map_err(ReplayError::Races)?;
            lines.say_what_was_not_met(&met, &last.ending, &mut found);
            let report = Report::new(&found, options);
            let known = |new, &(address, bytes): &_| add_variable(lines, address, bytes) || new;
            let new = report.atomics.iter().fold(false, known);
            let known = |new, &instruction: &u64| lines.meant.insert(instruction) || new;
            let new = report.atomic_instructions.iter().fold(new, known);
            if !new || !whole(&last.ending) {
                return Ok((found, last));
            }
        }
    }

    /// One replay, in which threads wait for no more than they must; where that leads elsewhere, or is known to, one in
    /// which all have the order of the timestamps.
    pub(super) fn pass(
        &mut self,
        flag: u32,
        folder: &Path,
        watched: u64,
        tell: &mut dyn FnMut(Pass),
    ) -> Result<Replayed, ReplayError> {
        let Instrument { in_vain, learning, diverges, .. } = self.instrument;
        let learns = if learning && flag & flag::RACES_WATCHED != 0 { flag::LEARNING } else { 0 };
        let flags = flag::TRANSLATED | flag | learns | if diverges { 0 } else { flag::AHEAD };
        self.instrument = Instrument { flags, races: Some(folder.to_owned()), watched, in_vain, learning, diverges };
        // What the program prints was seen when it was recorded.
        let mut nowhere = io::sink();
        if diverges {
            return self.run(&Rule::Reference, Some(&mut nowhere));
        }
        let rule = Rule::choose_quietly(&self.recording, &self.folder);
        let replayed = self.run(&rule, Some(&mut nowhere))?;
        // Who waits in vain does so in whatever order.
        if matches!(&replayed.ending, Ending::Diverged(report) if in_vain.is_none() || report.in_vain != in_vain) {
            tell(Pass::Again);
            self.instrument.flags &= !flag::AHEAD;
            // What it found is not added to.
            for kind in [FOUND, TOLD] {
                files(folder, kind).map_err(ReplayError::Races)?;
            }
            return self.run(&Rule::Reference, Some(&mut nowhere));
        }
        Ok(replayed)
    }

    /// All threads of the recording, with what `told` says of where some were created.
    fn threads(&self, told: &[RawThread]) -> Vec<RawThread> {
        let recording = &self.recording;
        let mut creators = BTreeMap::new();
        for number in 0..recording.thread_count() {
            creators.extend(recording.children(number).iter().map(|&child| (child, number)));
        }
        let told = |number| told.iter().find(|thread| thread.number == number).cloned().unwrap_or_default();
        let thread = |number| RawThread {
            number,
            name: recording.name(number),
            creator: creators.get(&number).copied().unwrap_or(NO_THREAD),
            ..told(number)
        };
        (0..recording.thread_count()).map(thread).collect()
    }
}

/// What is to be watched.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Lines {
    /// By lines: bytes that race.
    pub(super) racing: BTreeMap<u64, u64>,
    /// Lines with the bytes of a synchronisation variable, each by itself.
    variables: BTreeSet<(u64, u64)>,
    /// Those of them at which threads wait by the kernel, whatever else touches them.
    #[serde(default)]
    waited: BTreeSet<(u64, u64)>,
    /// Instructions whose accesses are to such variables.
    #[serde(default)]
    meant: BTreeSet<u64>,
    /// By lines: bytes that threads read last, if that is why the replay went no further.
    #[serde(default)]
    open: BTreeMap<u64, u64>,
}

impl Lines {
    /// Processes hand over by these bytes of lines: whatever accesses them is to be ordered.
    fn hand_over(&mut self, lines: impl Iterator<Item = (u64, u64)>) {
        for line in lines {
            self.variables.insert(line);
            self.waited.insert(line);
        }
    }

    /// How many bytes are to be watched.
    pub(super) fn bytes(&self) -> u64 {
        let lines = self.racing.values().chain(self.open.values()).chain(self.variables.iter().map(|(_, bytes)| bytes));
        lines.map(|bytes| u64::from(bytes.count_ones())).sum()
    }

    /// Of which racing bytes the second replay told no race, if it went as recorded or not.
    fn say_what_was_not_met(&self, met: &BTreeMap<u64, u64>, ending: &Ending, found: &mut RawReport) {
        let mut left = self.racing.clone();
        for (line, bytes) in met.iter().chain(self.variables.iter().map(|(line, bytes)| (line, bytes))) {
            left.entry(*line).and_modify(|left| *left &= !bytes);
        }
        let bytes: u64 = left.values().map(|bytes| u64::from(bytes.count_ones())).sum();
        // What atomics order is known in the second replay alone.
        let certain = bytes > 0 && self.variables.is_empty();
        match ending {
            Ending::AsRecorded(_) | Ending::RecordingEnds(_) if certain => {
                let what = "bytes that race in the first replay, and for which nobody raced in the second".to_owned();
                found.unobserved.push(RawUnobserved { what, count: bytes });
            }
            Ending::Interrupted(_) | Ending::AsRecorded(_) | Ending::RecordingEnds(_) => {}
            _ => found.unplaced = RawUnplaced { bytes, certain },
        }
    }
}

/// Takes bytes from an address on, as bits, for those of a synchronisation variable. `false` if they all were known.
fn add_variable(lines: &mut Lines, address: u64, bytes: u64) -> bool {
    let (line, shift) = (address / 64, address % 64);
    let high = if shift == 0 { 0 } else { bytes >> (64 - shift) };
    let parts = [(line, bytes << shift), (line + 1, high)];
    // Both are taken, whichever is new.
    parts.into_iter().filter(|part| part.1 != 0 && lines.variables.insert(*part)).count() > 0
}

/// The words of each file of this kind, one file a process. It is gone then.
fn files(folder: &Path, kind: &str) -> io::Result<Vec<Vec<u64>>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| name.strip_prefix(kind).is_some_and(|n| n.starts_with('-'))) {
            let bytes = fs::read(entry.path())?;
            all.push(bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect());
            // The next replay begins with a new one.
            fs::remove_file(entry.path())?;
        }
    }
    Ok(all)
}

/// A folder for one hunt, gone with it.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new() -> io::Result<Self> {
        let place = std::env::temp_dir();
        // Containers may share the folder, and not know each other's processes.
        let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |file| file.ino());
        let prefix = format!("relive-races.{namespace}.");
        // A signal between two replays ends the process as it ends any other.
        processes::remove_left(&place, &prefix);
        let folder = place.join(format!("{prefix}{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(Self(folder))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    fn watch(&self, lines: &Lines) -> io::Result<()> {
        self.watch_and_count(lines, &[])
    }

    /// Has these lines watched, and counted how often threads come to these instructions.
    pub(super) fn watch_and_count(&self, lines: &Lines, counted: &[u64]) -> io::Result<()> {
        let racing = lines.racing.iter().chain(&lines.open).map(|(&line, &bytes)| [word::RACING, line, bytes]);
        let variables = lines.variables.iter().map(|&(line, bytes)| [word::VARIABLE, line, bytes]);
        let meant = lines.meant.iter().map(|&instruction| [word::MEANT, instruction, 0]);
        let counted = counted.iter().map(|&instruction| [word::COUNTED, instruction, 0]);
        let waited = lines.waited.iter().map(|&(line, bytes)| [word::WAITED, line, bytes]);
        let words = racing.chain(variables).chain(waited).chain(meant).chain(counted).flatten();
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        fs::write(self.0.join(WATCH), bytes)
    }

    /// Which accesses the second pass learnt. Where those are all known already, from whose order that of the others follows, all
    /// that race, if `known` says which are.
    fn learnt(&self, known: Option<&[Accesses]>, recorded: &Recorded) -> io::Result<Learnt> {
        let (mut learnt, mut all) = (Learnt::default(), Learnt::default());
        for words in files(&self.0, LEARNT)? {
            let mut paths: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
            for record in words.as_chunks::<{ word::COUNT }>().0 {
                match *record {
                    [word::STANDS_AT, file, part] => paths.entry(file).or_default().extend(part.to_le_bytes()),
                    [word::RACED, file, at] => _ = all.add([[file, at]]),
                    [_, file, at] => _ = learnt.add([[file, at]]),
                }
            }
            for (file, path) in paths {
                let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
                let path = Path::new(OsStr::from_bytes(&path[..end]));
                let path = recorded.path(path).unwrap_or_else(|| path.to_owned());
                learnt.stands_at(file, &path);
                all.stands_at(file, &path);
            }
        }
        if known.is_some_and(|known| Learnt::from_manifest(known).take_in(&learnt) == 0) {
            learnt.take_in(&all);
        }
        Ok(learnt)
    }

    /// What the second pass told, of all processes. By lines, the bytes that it told of.
    pub(super) fn told(&self, found: &mut RawReport, recorded: &Recorded) -> io::Result<BTreeMap<u64, u64>> {
        let mut met = BTreeMap::new();
        for words in files(&self.0, TOLD)? {
            match wire::read(&words) {
                Ok(mut report) => {
                    for module in &mut report.modules {
                        let path = recorded.path(Path::new(&module.file));
                        module.recorded = path.map(|path| path.to_string_lossy().into_owned());
                    }
                    let mut report = located(&report, &[]);
                    for race in &report.races {
                        for (line, bytes) in race.racing_lines() {
                            *met.entry(line).or_default() |= bytes;
                        }
                    }
                    let modules = &report.modules;
                    let mut inner = Vec::new();
                    report.races.retain(|race| {
                        let owner = inner::owner(race, modules);
                        inner.extend(owner);
                        owner.is_none()
                    });
                    inner::count(&inner, &mut found.unobserved);
                    images::add(found, report);
                }
                Err(cause) => found.unobserved.push(RawUnobserved { what: cause.to_string(), count: 1 }),
            }
        }
        Ok(met)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::{Ending, Lines};
    use relive_findings::raw::RawReport;

    #[test]
    fn bytes_that_were_not_met_are_told() {
        let lines = |variables: &[(u64, u64)]| Lines {
            racing: [(5, 0b1111), (6, 1)].into(),
            variables: variables.iter().copied().collect(),
            waited: [].into(),
            meant: [].into(),
            open: [].into(),
        };
        let left = |lines: &Lines, ending: &Ending| {
            let mut found = RawReport::default();
            lines.say_what_was_not_met(&[(5, 0b11), (7, 1)].into(), ending, &mut found);
            let missed: u64 = found.unobserved.iter().map(|one| one.count).sum();
            (found.unplaced.bytes, found.unplaced.certain, missed)
        };
        let (cut, ended) = (Ending::Shares { process: 1 }, Ending::RecordingEnds(None));
        assert_eq!(left(&lines(&[]), &cut), (3, true, 0));
        assert_eq!(left(&lines(&[(6, 1)]), &cut), (2, false, 0));
        assert_eq!(left(&lines(&[]), &ended), (0, false, 3));
        assert_eq!(left(&lines(&[(6, 1)]), &ended), (0, false, 0), "what atomics order does not race");
        assert_eq!((lines(&[(6, 1)]).bytes(), lines(&[]).bytes()), (6, 5));
    }
}
