//! Recordings that earlier versions made, kept in the tree: every later version must
//! read the same from them.
//!
//! `golden/v1.c` is the recorded program, `golden/record_v1.sh` records it. Versions 2 to 11
//! are of the same program with its environment, those from 6 on at the level of atomics.

use relive_trace::manifest::{Outcome, State, Text};
use relive_trace::recording::{End, Recording};
use std::fmt::Write;
use std::path::Path;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");

fn describe(recording: &Recording) -> String {
    let mut text = String::new();
    for p in recording.processes() {
        writeln!(text, "process {} main {} {:?} threads {:?}", p.index, p.main_thread, p.end, p.threads).unwrap();
    }
    for t in recording.threads() {
        let (name, children) = (recording.name(t.index), recording.children(t.index));
        writeln!(text, "thread {name} finished {} events {} children {children:?}", t.finished, t.events).unwrap();
        writeln!(text, "  from {} to {}", t.start_clock, t.clock).unwrap();
        for entry in t.entries() {
            writeln!(text, "  {} {} {:?}", entry.event, entry.clock, entry.record).unwrap();
        }
        let sum = t.events().fold(0u64, |sum, event| sum.wrapping_mul(31).wrapping_add(event.time));
        writeln!(text, "  sum of timestamps {sum:016x}").unwrap();
    }
    writeln!(text, "digest {:032x}", recording.digest()).unwrap();
    text
}

fn check(name: &str) {
    let recording = Recording::open(&Path::new(GOLDEN).join(name)).unwrap();
    let expected = std::fs::read_to_string(Path::new(GOLDEN).join(name).with_extension("txt")).unwrap();
    let found = describe(&recording);
    assert!(found == expected, "{name}.txt should be:\n{found}");
}

#[test]
fn a_recording_of_version_1_reads_as_ever() {
    check("v1");
}

fn check_environment(name: &str, version: u32) {
    check(name);
    let recording = Recording::open(&Path::new(GOLDEN).join(name)).unwrap();
    assert!(recording.manifest.environment_recorded && recording.manifest.format == version);
    assert_eq!(recording.manifest.outcome, Some(Outcome::Exited(5)));
}

#[test]
fn a_recording_of_version_2_reads_as_ever() {
    check_environment("v2", 2);
}

#[test]
fn a_recording_of_version_3_reads_as_ever() {
    check_environment("v3", 3);
}

#[test]
fn a_recording_of_version_4_reads_as_ever() {
    check_environment("v4", 4);
}

#[test]
fn a_recording_of_version_5_reads_as_ever() {
    check_environment("v5", 5);
}

#[test]
fn a_recording_of_version_6_reads_as_ever() {
    check_environment("v6", 6);
}

#[test]
fn a_recording_of_version_7_reads_as_ever() {
    check_environment("v7", 7);
}

#[test]
fn a_recording_of_version_8_reads_as_ever() {
    check_environment("v8", 8);
}

#[test]
fn a_recording_of_version_9_reads_as_ever() {
    check_environment("v9", 9);
}

#[test]
fn a_recording_of_version_10_reads_as_ever() {
    check_environment("v10", 10);
}

#[test]
fn a_recording_of_version_11_reads_as_ever() {
    check_environment("v11", 11);
}

/// What is certain about the recorded program, whatever order its threads ran in.
#[test]
fn the_kept_recording_is_of_the_kept_program() {
    let recording = Recording::open(&Path::new(GOLDEN).join("v1")).unwrap();
    let manifest = &recording.manifest;
    assert_eq!((manifest.state, manifest.outcome), (State::Complete, Some(Outcome::Exited(5))));
    assert_eq!(manifest.command, [Text::from("./v1")]);
    let names: Vec<_> = recording.threads().map(|thread| recording.name(thread.index)).collect();
    assert_eq!(names, ["0", "0.0", "0.1", "0.2", "0.3"]);
    assert_eq!(recording.thread(1).unwrap().events, 300, "150 turns");
    assert_eq!(recording.process(0).unwrap().end, End::Exited { code: 5, thread: Some(0) });
    assert!(matches!(recording.process(1).unwrap().end, End::Exited { code: 3, .. }));
    let mut times: Vec<u64> =
        (1..=2).flat_map(|t| recording.thread(t).unwrap().events()).map(|event| event.time).collect();
    times.sort_unstable();
    let all = times.len();
    times.dedup();
    assert_eq!(times.len(), all, "two events on one mutex have different timestamps");
}
