//! The first pass: which bytes race.
//!
//! A replay in which what threads read again and again is not noted each time. If that
//! leaves it open of some lines whether they race, another one follows, in which it is
//! for those; and a third one, in which it is for all, if others come to be open by then.
//!
//! What is handed over by atomics the first pass does not know. Where much seems to race in
//! a recording that orders them, it is done again with the variables that it has found.
//!
//! Apart from the second pass, which knows nothing of how its lines were found.

use super::{Lines, Pass, Scratch, files, segments, whole};
use crate::replay::{Ending, ReplayError, Replayed, Replayer};
use relive_findings::raw::{RawSegments, RawUnobserved};
use relive_trace::control::flag;
use relive_trace::manifest::Level;
use relive_trace::races::word::{self, not_translated};
use relive_trace::races::{FOUND, UNTOLD_FUNCTIONS, WATCH};
use std::collections::{BTreeMap, BTreeSet};
use std::{fs, io};

/// What the first pass told.
#[derive(Debug)]
pub(super) struct FirstTold {
    /// Bytes that race, and bytes of synchronisation variables.
    pub(super) lines: Lines,
    /// What it could not see.
    pub(super) missed: Vec<RawUnobserved>,
    /// The segments that it counted, if it did.
    pub(super) segments: Option<RawSegments>,
    /// How many processes did not tell what they did last.
    pub(super) untold: u64,
    /// By lines of memory that processes share, which of them did what there.
    pub(super) seen: Seen,
    /// Lines of which it does not know whether they race.
    unsure: BTreeSet<u64>,
}

impl Replayer {
    /// The first pass, and again where it is unsure or much seems to race. With `segments`, these are counted.
    pub(super) fn first(
        &mut self,
        segments: bool,
        folder: &Scratch,
        tell: &mut dyn FnMut(Pass),
    ) -> Result<(Replayed, FirstTold), ReplayError> {
        let (replayed, told) = self.sure(segments, folder, tell)?;
        let much = told.lines.racing.len() > FEW && !told.lines.variables.is_empty();
        if !much || self.recording.manifest.level != Level::Atomics || !whole(&replayed.ending) {
            return Ok((replayed, told));
        }
        tell(Pass::Hands);
        let variables = Lines { variables: told.lines.variables.clone(), ..Lines::default() };
        folder.watch(&variables).map_err(ReplayError::Races)?;
        let again = self.pass(flag::RACES, folder.path(), 0, tell)?;
        let mut told_again = folder.first_told().map_err(ReplayError::Races)?;
        if !whole(&again.ending) {
            let ended = if matches!(again.ending, Ending::Interrupted(_)) { again } else { replayed };
            return Ok((ended, told));
        }
        told_again.lines.variables.extend(&told.lines.variables);
        told_again.lines.waited.extend(&told.lines.waited);
        Ok((again, FirstTold { segments: told.segments, ..told_again }))
    }

    /// The first pass until it is sure.
    fn sure(
        &mut self,
        segments: bool,
        folder: &Scratch,
        tell: &mut dyn FnMut(Pass),
    ) -> Result<(Replayed, FirstTold), ReplayError> {
        let wanted = if segments { flag::RACES | flag::SEGMENTS } else { flag::RACES };
        for (pass, flags) in [(Pass::First, 0), (Pass::Unsure, 0), (Pass::EachRead, flag::EACH_READ)] {
            tell(pass);
            let replayed = self.pass(wanted | flags, folder.path(), 0, tell)?;
            let told = folder.first_told().map_err(ReplayError::Races)?;
            if told.unsure.is_empty() || matches!(replayed.ending, Ending::Interrupted(_)) {
                return Ok((replayed, told));
            }
            folder.watch_unsure(&told.unsure).map_err(ReplayError::Races)?;
        }
        unreachable!("where each read is noted nothing is unsure")
    }
}

/// By lines of memory that processes share: bytes that each of them has read and written.
#[derive(Debug, Default)]
pub(super) struct Seen(BTreeMap<u64, Vec<(usize, [u64; 2])>>);

impl Seen {
    fn add(&mut self, process: usize, line: u64, [read, written]: [u64; 2]) {
        let line = self.0.entry(line).or_default();
        match line.iter_mut().find(|(known, _)| *known == process) {
            Some((_, known)) => *known = [known[0] | read, known[1] | written],
            None => line.push((process, [read, written])),
        }
    }

    /// Lines with the bytes that one process has written and another one has touched: by those they may hand something over.
    pub(super) fn handed(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().filter_map(|(&line, known)| {
            let of_pair = |(a, [_, written]): &(usize, [u64; 2]), (b, [read, other]): &(usize, [u64; 2])| {
                if a == b { 0 } else { written & (read | other) }
            };
            let bytes = known.iter().flat_map(|one| known.iter().map(move |other| of_pair(one, other)));
            Some((line, bytes.fold(0, |all, bytes| all | bytes))).filter(|&(_, bytes)| bytes != 0)
        })
    }
}

/// Of so few lines that seem to race it does not matter whether they do.
const FEW: usize = 8;

/// What is said of processes that began and did not tell of their ends.
pub(super) const UNTOLD: &str = "what a process did last, which a signal ended before it could be told";

/// What was not observed, in words.
fn missed_of(what: u64, which: u64) -> String {
    match (what, which) {
        (word::NATIVE, not_translated::PIECE) => "code that can't be translated, which ran natively".to_owned(),
        (word::NATIVE, not_translated::THREAD) => "threads that were found outside of translated code".to_owned(),
        (word::NATIVE, not_translated::PROCESS) => "a process that could not be translated: nothing of it".to_owned(),
        (word::NATIVE, not_translated::UNCLEAR) => "parts of what formatted input and output accessed".to_owned(),
        (word::NATIVE, not_translated::LEFT) => "calls of the C library that did not return in order".to_owned(),
        (word::NATIVE, which @ not_translated::FUNCTIONS..) => {
            match UNTOLD_FUNCTIONS.get((which - not_translated::FUNCTIONS) as usize) {
                Some(name) => format!("what {}() accesses of its caller's memory", name.to_string_lossy()),
                None => "what a function of the C library accesses of its caller's memory".to_owned(),
            }
        }
        (word::UNKNOWN, number) => match iced_x86::Mnemonic::try_from(number as usize) {
            Ok(mnemonic) => format!("accesses of {}", format!("{mnemonic:?}").to_lowercase()),
            Err(_) => "accesses of an instruction".to_owned(),
        },
        _ => "something that this version does not know".to_owned(),
    }
}

impl Scratch {
    /// Has each read of these lines noted.
    fn watch_unsure(&self, lines: &BTreeSet<u64>) -> io::Result<()> {
        let words = lines.iter().flat_map(|&line| [word::UNSURE, line, 0]);
        fs::write(self.path().join(WATCH), words.flat_map(u64::to_le_bytes).collect::<Vec<u8>>())
    }

    /// What the first pass told, of all processes.
    fn first_told(&self) -> io::Result<FirstTold> {
        let (mut lines, mut missed, mut segments) = (Lines::default(), BTreeMap::new(), None);
        let (mut unsure, mut seen) = (BTreeSet::new(), Seen::default());
        let (mut begun, mut ended) = (BTreeSet::new(), BTreeSet::new());
        for (process, words) in files(&self.0, FOUND)?.into_iter().enumerate() {
            for record in words.chunks_exact(word::COUNT) {
                match *record {
                    [word::RACING, line, bytes] => *lines.racing.entry(line).or_default() |= bytes,
                    [word::VARIABLE, line, bytes] => _ = lines.variables.insert((line, bytes)),
                    [word::WAITED, line, bytes] => {
                        lines.variables.insert((line, bytes));
                        lines.waited.insert((line, bytes));
                    }
                    [word::OPEN, line, bytes] => *lines.open.entry(line).or_default() |= bytes,
                    [word::UNSURE, line, _] => _ = unsure.insert(line),
                    [word::SEEN_READ, line, bytes] => seen.add(process, line, [bytes, 0]),
                    [word::SEEN_WRITTEN, line, bytes] => seen.add(process, line, [0, bytes]),
                    [word::BEGUN, process, _] => _ = begun.insert(process),
                    [word::ENDED, process, _] => _ = ended.insert(process),
                    [what, first, second] if segments::add(&mut segments, what, [first, second]) => {}
                    [what, which, count] => *missed.entry(missed_of(what, which)).or_default() += count,
                    _ => {}
                }
            }
        }
        let missed = missed.into_iter().map(|(what, count)| RawUnobserved { what, count }).collect();
        let untold = begun.difference(&ended).count() as u64;
        Ok(FirstTold { lines, missed, segments, untold, seen, unsure })
    }
}

#[cfg(test)]
mod tests {
    use super::{FirstTold, Scratch, Seen, missed_of};
    use relive_findings::raw::RawUnobserved;
    use relive_trace::races::word::{self, not_translated};
    use relive_trace::races::{FOUND, UNTOLD_FUNCTIONS, WATCH};
    use std::fs;

    #[test]
    fn functions_that_nobody_tells_of_are_named() {
        let told = |which| missed_of(word::NATIVE, not_translated::FUNCTIONS + which);
        assert_eq!(
            told(0),
            format!("what {}() accesses of its caller's memory", UNTOLD_FUNCTIONS[0].to_str().unwrap())
        );
        assert_eq!(
            told(UNTOLD_FUNCTIONS.len() as u64),
            "what a function of the C library accesses of its caller's memory"
        );
    }

    #[test]
    fn processes_hand_over_by_what_one_writes_and_another_touches() {
        let mut seen = Seen::default();
        let told = [
            (0, 5, [0b1, 0]),
            (1, 5, [0b1, 0]),
            (0, 6, [0, 0b0110]),
            (0, 6, [0b1000, 0]),
            (1, 6, [0b1110, 0]),
            (2, 7, [0b1, 0b1]),
            (1, 8, [0, 0b11]),
            (2, 8, [0, 0b10]),
        ];
        for (process, line, bytes) in told {
            seen.add(process, line, bytes);
        }
        assert_eq!(seen.handed().collect::<Vec<_>>(), [(6, 0b0110), (8, 0b10)]);
    }

    #[test]
    fn what_several_processes_found_is_watched_once() {
        let folder = Scratch(tempfile::tempdir().unwrap().keep());
        let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        fs::write(
            folder.0.join(format!("{FOUND}-0")),
            bytes(&[10, 0, 0, 0, 5, 1, 1, 5, 8, 0, 5, 2, 2, 0, 3, 14, 6, 15]),
        )
        .unwrap();
        // The last record was cut.
        fs::write(
            folder.0.join(format!("{FOUND}-12")),
            bytes(&[10, 12, 0, 0, 5, 2, 0, 9, 4, 15, 7, 0, 2, 0, 4, 11, 12, 0, 0, 7]),
        )
        .unwrap();
        fs::write(folder.0.join(format!("{FOUND}s")), bytes(&[0, 1, 1])).unwrap();
        let FirstTold { lines, missed, segments, untold, unsure, .. } = folder.first_told().unwrap();
        folder.watch(&lines).unwrap();
        assert_eq!(lines.racing.into_iter().collect::<Vec<_>>(), [(5, 3), (9, 4)]);
        assert_eq!(lines.variables.into_iter().collect::<Vec<_>>(), [(5, 8), (6, 15)]);
        assert_eq!((segments, untold, unsure), (None, 1, [7].into()));
        assert_eq!(missed, [RawUnobserved { what: missed_of(word::NATIVE, not_translated::PIECE), count: 7 }]);
        assert_eq!(fs::read(folder.0.join(WATCH)).unwrap(), bytes(&[0, 5, 3, 0, 9, 4, 1, 5, 8, 1, 6, 15, 14, 6, 15]));
    }
}
