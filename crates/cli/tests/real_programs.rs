//! Unmodified programs from Debian, recorded and replayed.
//!
//! Apart from the guests because nobody here wrote them: they synchronise as
//! real software does. Each must replay to the same bytes and the same exit
//! status, or, where it needs more order than this level records, end in a
//! divergence report. A wrong result is never allowed. Those that end in a
//! report stand in `real_programs_known_failures.tsv` with the reason, and must
//! leave it once they work.

#[path = "trial/dice.rs"]
mod dice;
#[path = "trial/text.rs"]
mod text;
#[path = "trial/timed.rs"]
mod timed;

use std::path::Path;
use std::process::Command;
use std::time::Duration;
use timed::{Ended, TOOL_FAILED, long, run};

/// Bytes of input; the long run has what the project promises to handle.
const INPUT_BYTES: usize = 6 << 20;
const INPUT_BYTES_LONG: usize = 52 << 20;
/// Replays: the first learns the order at each object, the others follow what it learnt.
const REPLAYS: usize = 3;
/// Recordings of a known failure until one of its replays must have diverged.
const KNOWN_FAILURE_RECORDINGS: usize = 8;
const KNOWN_FAILURES: &str = include_str!("real_programs_known_failures.tsv");

fn limit() -> Duration {
    Duration::from_secs(if long() { 600 } else { 120 })
}

/// Records and replays `arguments`, which read `in` and write to standard output.
fn check(case: &str, arguments: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path();
    let bytes = if long() { INPUT_BYTES_LONG } else { INPUT_BYTES };
    std::fs::write(here.join("in"), text::text(bytes, 1)).expect("the input");
    let plain = run(Command::new(arguments[0]).args(&arguments[1..]).current_dir(here), limit()).expect_code(0);
    assert!(!plain.stdout.is_empty(), "{case} wrote nothing");

    match KNOWN_FAILURES.lines().find(|l| l.split('\t').next() == Some(case)) {
        None => {
            let reports = once(case, arguments, here, &plain);
            assert!(reports.is_empty(), "{case} diverged and is no known failure:\n{}", reports.join("\n"));
        }
        // A data race doesn't strike in every recording.
        Some(line) => {
            let struck = (0..KNOWN_FAILURE_RECORDINGS).any(|_| !once(case, arguments, here, &plain).is_empty());
            assert!(struck, "{case} works now, take it off the list: {line}");
        }
    }
}

/// One recording and its replays; hands back the reports of those that diverged.
fn once(case: &str, arguments: &[&str], here: &Path, plain: &Ended) -> Vec<String> {
    let trace = here.join("trace");
    let mut command = timed::record(&trace, Path::new(arguments[0]));
    let recorded = run(command.args(&arguments[1..]).current_dir(here), limit());
    assert_eq!(recorded.code, plain.code, "recording changed the exit status\n{}", recorded.stderr);
    assert_same(plain, &recorded, "recorded run");
    let mut reports = Vec::new();
    for number in 1..=REPLAYS {
        let replayed = run(timed::replay(&trace).current_dir(here), limit());
        replayed.expect_clean_report();
        if replayed.code == TOOL_FAILED {
            reports.push(replayed.stderr);
            continue;
        }
        assert_eq!(replayed.code, recorded.code, "replay {number} of {case}\n{}", replayed.stderr);
        assert_same(&recorded, &replayed, &format!("replay {number} of {case}"));
    }
    std::fs::remove_dir_all(&trace).expect("the trace");
    reports
}

fn assert_same(expected: &Ended, got: &Ended, what: &str) {
    if expected.stdout != got.stdout {
        let differs = expected.stdout.iter().zip(&got.stdout).position(|(a, b)| a != b);
        let lengths = (expected.stdout.len(), got.stdout.len());
        panic!("{what}: wrong output, lengths {lengths:?}, first difference at {differs:?}\n{}", got.stderr);
    }
}

#[test]
fn pigz() {
    check("pigz", &["pigz", "-p", "4", "-c", "in"]);
}

#[test]
fn pbzip2() {
    check("pbzip2", &["pbzip2", "-p4", "-1", "-c", "-k", "in"]);
}

#[test]
fn lbzip2() {
    check("lbzip2", &["lbzip2", "-n", "4", "-1", "-c", "-k", "in"]);
}

#[test]
fn pixz() {
    check("pixz", &["sh", "-c", "exec pixz -t -p 4 -1 < in"]);
}

#[test]
fn xz() {
    check("xz", &["xz", "-T4", "-1", "--block-size=1MiB", "-c", "-k", "in"]);
}

#[test]
fn zstd() {
    check("zstd", &["zstd", "-q", "-T4", "-B1048576", "-9", "-c", "in"]);
}

#[test]
fn plzip() {
    check("plzip", &["plzip", "-n", "4", "-1", "-B", "1MiB", "-c", "in"]);
}

#[test]
fn sort() {
    check("sort", &["sort", "--parallel=4", "-S", "256M", "in"]);
}

#[test]
fn seven_zip() {
    check("7zz", &["7zz", "a", "-bd", "-tbzip2", "-mmt=4", "-mx=1", "-so", "-an", "in"]);
}

#[test]
fn pigz_undone() {
    check("pigz -d", &["sh", "-c", "pigz -c -p 4 in > in.gz && exec pigz -d -c in.gz"]);
}
