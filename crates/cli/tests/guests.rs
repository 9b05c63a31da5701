//! Every guest in every mode, each pair shown as a test of its own.
//!
//! Apart from the other tests because it has its own harness: the list of tests
//! is the registry of guests. `cargo test --test guests -- replay::mutex` runs
//! some of them, `RELIVE_TEST_RUNS` says how many recordings each gets, and with
//! `RELIVE_TEST_KEEP` the trace of a failed replay stays on disk.

mod stage;

use libtest_mimic::{Arguments, Failed, Trial};
use stage::check::{Mode, check};
use stage::registry::{self, Guest};
use stage::{known, run};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// The traps that guests must step into, by number on the page of ordering facts and by topic below it.
const FACTS: &[&str] =
    &["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "clocks", "effects", "handlers", "symbols"];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut trials = vec![
        Trial::test("registry::is_sound", || none(&registry::complaints())),
        Trial::test("registry::covers_every_fact", || none(&uncovered())),
        Trial::test("registry::known_failures_are_sound", || none(&known::complaints())),
        Trial::test("stage::a_hang_is_a_failure", a_hang_is_a_failure),
    ];
    for guest in registry::guests() {
        for &mode in Mode::ALL.iter().filter(|mode| mode.suits(guest)) {
            let name = format!("{}::{}", mode.name(), guest.name);
            trials.push(Trial::test(name, move || judge(guest, mode)));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A known failure must fail, everything else must not.
fn judge(guest: &'static Guest, mode: Mode) -> Result<(), Failed> {
    match (check(guest, mode), known::find(&guest.name, mode)) {
        (Ok(()), None) | (Err(_), Some(_)) => Ok(()),
        (Err(cause), None) => Err(cause.into()),
        (Ok(()), Some(known)) => Err(format!("works, but is listed as a known failure: {}", known.reason).into()),
    }
}

fn none(complaints: &[String]) -> Result<(), Failed> {
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n").into()) }
}

fn uncovered() -> Vec<String> {
    let covers = |fact: &str| registry::guests().iter().any(|guest| guest.facts.iter().any(|own| own == fact));
    let mut found: Vec<String> =
        FACTS.iter().filter(|fact| !covers(fact)).map(|fact| format!("no guest for fact {fact}")).collect();
    for guest in registry::guests() {
        for fact in guest.facts.iter().filter(|fact| !FACTS.contains(&fact.as_str())) {
            found.push(format!("{} names fact {fact}, which is none", guest.name));
        }
    }
    found
}

/// Without this, a hang would hold up everything behind it.
fn a_hang_is_a_failure() -> Result<(), Failed> {
    let mut shell = Command::new("sh");
    shell.args(["-c", "echo before; sleep 600 & sleep 600"]);
    let started = Instant::now();
    let ended = run::run(shell, &run::Limits { timeout: Duration::from_secs(1), stop: None });
    if ended.status.is_some() || ended.text() != "before\n" || started.elapsed() > Duration::from_secs(60) {
        return Err(format!("{ended:?}").into());
    }
    Ok(())
}
