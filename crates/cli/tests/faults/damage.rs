//! Traces that somebody or something changed: bytes, lengths, whole files.
//!
//! Apart because it needs no faulty surroundings, only a small good trace: the
//! positions are sampled here through the whole binary, and all of them are
//! tried in `every_byte.rs`, where no process has to be started.

use crate::dice::Dice;
use crate::timed::{self, Ended, RELIVE, TOOL_FAILED};
use crate::{LIMIT, is_prefix};
use relive_trace::manifest::{Manifest, State};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Damaged copies tried through the binary, for each kind of damage.
const SAMPLES: usize = 40;
const SAMPLES_LONG: usize = 400;

/// A small good recording, and room for damaged copies of it.
pub(crate) struct Specimen {
    folder: tempfile::TempDir,
    recorded: Ended,
}

impl Specimen {
    /// A recording that ended normally, with the order that a first replay learnt.
    pub(crate) fn finished() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let program = timed::guest(folder.path(), "ledger");
        let trace = folder.path().join("good");
        let recorded = timed::run(timed::record(&trace, &program).args(["3", "40"]), LIMIT).expect_code(0);
        let replayed = timed::run(&mut timed::replay(&trace), LIMIT).expect_code(0);
        assert_eq!(replayed.text(), recorded.text(), "the trace is not good to begin with");
        Self { folder, recorded }
    }

    /// The same, as if the launcher had been killed: nobody computed checksums.
    pub(crate) fn unfinished() -> Self {
        let specimen = Self::finished();
        let good = specimen.folder.path().join("good");
        std::fs::remove_file(good.join("derived.order")).expect("the learnt order");
        let mut manifest = Manifest::read(&good).expect("the manifest");
        manifest.state = State::Unfinished;
        (manifest.files, manifest.outcome, manifest.ended_ms) = (Vec::new(), None, None);
        manifest.write(&good).expect("an unfinished manifest");
        specimen
    }

    /// A fresh copy of the good trace.
    pub(crate) fn copy(&self) -> PathBuf {
        let copy = self.folder.path().join("damaged");
        if copy.exists() {
            std::fs::remove_dir_all(&copy).expect("the copy before");
        }
        std::fs::create_dir(&copy).expect("a folder for the copy");
        for name in self.files() {
            std::fs::copy(self.folder.path().join("good").join(&name), copy.join(&name)).expect("a copied file");
        }
        copy
    }

    /// The names of the trace's files, sorted.
    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path().join("good")).expect("the trace");
        let mut names: Vec<String> =
            entries.map(|e| e.expect("its entry").file_name().into_string().expect("text")).collect();
        names.sort();
        names
    }

    /// Every reading command on `trace`: a correct answer, a correct prefix, or one line.
    fn expect_survivable(&self, trace: &Path, damage: &str) {
        for command in ["stats", "dump"] {
            let read = timed::run(Command::new(RELIVE).arg(command).arg(trace), LIMIT);
            read.expect_clean_report();
            assert!([0, TOOL_FAILED].contains(&read.code), "{command} after {damage}: {}\n{}", read.code, read.stderr);
        }
        let replayed = timed::run(&mut timed::replay(trace), LIMIT);
        replayed.expect_clean_report();
        let allowed = [self.recorded.code, TOOL_FAILED, 126, 127].contains(&replayed.code);
        assert!(allowed, "exit status {} after {damage}\n{}", replayed.code, replayed.stderr);
        let right = is_prefix(&replayed.stdout, &self.recorded.stdout);
        assert!(right, "wrong replay after {damage}\n{}\n{}", replayed.text(), replayed.stderr);
        // Who claims success has done everything, or says where the recording ends.
        if replayed.code == self.recorded.code && !replayed.stderr.contains("the recording ends here") {
            assert_eq!(replayed.text(), self.recorded.text(), "incomplete replay after {damage}\n{}", replayed.stderr);
        }
    }
}

fn samples() -> usize {
    if timed::long() { SAMPLES_LONG } else { SAMPLES }
}

/// Damages one file of a copy at a time, where `damage` says, and looks what the commands make of it.
fn check_samples(specimen: &Specimen, seed: u64, mut damage: impl FnMut(&mut Dice, &mut Vec<u8>) -> String) {
    let mut dice = Dice::new(seed);
    let files = specimen.files();
    for _ in 0..samples() {
        let copy = specimen.copy();
        let name = &files[dice.below(files.len())];
        let path = copy.join(name);
        let mut bytes = std::fs::read(&path).expect("a file of the trace");
        let what = damage(&mut dice, &mut bytes);
        std::fs::write(&path, &bytes).expect("the damage");
        specimen.expect_survivable(&copy, &format!("{name}: {what}"));
    }
}

fn change_byte(dice: &mut Dice, bytes: &mut [u8]) -> String {
    let (position, change) = (dice.below(bytes.len()), 1 + dice.below(255) as u8);
    bytes[position] ^= change;
    format!("byte {position} changed by {change:#04x}")
}

fn cut(dice: &mut Dice, bytes: &mut Vec<u8>) -> String {
    let (before, length) = (bytes.len(), dice.below(bytes.len()));
    bytes.truncate(length);
    format!("cut to {length} of {before} bytes")
}

#[test]
fn a_changed_byte_is_found_or_harmless() {
    check_samples(&Specimen::finished(), 21, |dice, bytes| change_byte(dice, bytes));
}

#[test]
fn a_truncated_file_is_found_or_a_prefix() {
    check_samples(&Specimen::finished(), 22, cut);
}

#[test]
fn a_changed_byte_of_an_unfinished_trace_never_replays_wrongly() {
    check_samples(&Specimen::unfinished(), 23, |dice, bytes| {
        // Most of a small data file is its empty first page: aim behind it.
        let first = if bytes.len() > 4096 + 64 { 4096 } else { 0 };
        change_byte(dice, &mut bytes[first..])
    });
}

#[test]
fn a_truncated_unfinished_trace_never_replays_wrongly() {
    check_samples(&Specimen::unfinished(), 24, cut);
}

#[test]
fn a_missing_file_is_one_line() {
    let specimen = Specimen::finished();
    for name in specimen.files() {
        let copy = specimen.copy();
        std::fs::remove_file(copy.join(&name)).expect("a file of the trace");
        specimen.expect_survivable(&copy, &format!("{name} removed"));
    }
}

#[test]
fn what_is_no_trace_is_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().join("empty");
    let file = folder.path().join("file");
    std::fs::create_dir(&empty).expect("an empty folder");
    std::fs::write(&file, "no trace").expect("a file");
    for command in ["replay", "stats", "dump"] {
        for what in [&empty, &file, &folder.path().join("absent")] {
            let refused = timed::run(Command::new(RELIVE).arg(command).arg(what), LIMIT).expect_code(TOOL_FAILED);
            refused.expect_clean_report();
            assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
            let name = what.file_name().expect("a name").to_str().expect("text");
            assert!(refused.stderr.contains(name), "does not name {name}: {}", refused.stderr);
        }
    }
}
