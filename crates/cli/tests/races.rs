//! The programs that race on purpose: `relive races` names each pair of lines that
//! `guests/races/expected.toml` lists for them, and nothing else.
//!
//! Apart from the other tests because it has its own harness: the list of tests is
//! that table. `cargo test --test races -- mutex::late` runs some of them; with
//! `RELIVE_TEST_KEEP` the trace of a failed one stays on disk.

#[path = "races/judge.rs"]
mod judge;
#[path = "races/report.rs"]
mod report;
mod stage;
#[path = "races/table.rs"]
mod table;

use libtest_mimic::{Arguments, Failed, Trial};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::OnceLock;
use table::{Case, Table};

fn main() -> ExitCode {
    libtest_mimic::run(&Arguments::from_args(), trials()).exit_code()
}

/// Where cargo's own harness builds this file, one test stands for all of them.
#[test]
fn every_program() {
    let arguments = Arguments { test_threads: Some(2), ..Arguments::default() };
    assert!(!libtest_mimic::run(&arguments, trials()).has_failed());
}

fn trials() -> Vec<Trial> {
    let example = || Ok(judge::notices_what_is_wrong(Case::find("neighbours::same_byte"))?);
    let mut trials = vec![
        Trial::test("table::is_sound", || none(&Table::of_guests().complaints())),
        Trial::test("table::known_failures_are_sound", || none(&wrong_known_failures())),
        Trial::test("judge::notices_what_is_wrong", example),
    ];
    for case in &Table::of_guests().cases {
        for run in case.runs.iter().filter(|_| case.suits_this_processor()) {
            trials.push(Trial::test(case.name(run), move || known(&case.name(run), judge::check(case, run))));
        }
    }
    trials
}

/// What fails always must fail, what fails at times may, everything else must not.
fn known(name: &str, outcome: Result<(), String>) -> Result<(), Failed> {
    match (outcome, known_failures().get(name)) {
        (Ok(()), None) | (Err(_), Some(_)) => Ok(()),
        (Err(cause), None) => Err(cause.into()),
        (Ok(()), Some(reason)) if reason.starts_with(AT_TIMES) => Ok(()),
        (Ok(()), Some(reason)) => Err(format!("works, but is listed as a known failure: {reason}").into()),
    }
}

/// What the reason of a failure begins with that depends on chance.
const AT_TIMES: &str = "at times: ";

/// The reviewed file of known failures: a case and its reason in each line, sorted.
fn known_failures() -> &'static BTreeMap<&'static str, &'static str> {
    static KNOWN: OnceLock<BTreeMap<&str, &str>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let lines = include_str!("../../../guests/races/known_failures.tsv").lines();
        lines.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('\t')).collect()
    })
}

/// What is wrong with that file, one line each.
fn wrong_known_failures() -> Vec<String> {
    let table = Table::of_guests();
    let exists = |name: &str| table.cases.iter().any(|case| case.runs.iter().any(|run| case.name(run) == name));
    let known = known_failures();
    let wrong = known.iter().filter(|(name, reason)| !exists(name) || reason.is_empty());
    wrong.map(|(name, _)| format!("known_failures.tsv: {name} is no case, or has no reason")).collect()
}

fn none(complaints: &[String]) -> Result<(), Failed> {
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n").into()) }
}
