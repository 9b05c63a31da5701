//! Failures that are known: `guests/known_failures.tsv`.
//!
//! Apart because the file is reviewed: sorted, one line a guest and mode, each
//! with its reason, and a line whose guest works again fails the tests.

use super::check::Mode;
use super::registry;
use std::sync::OnceLock;

/// One line of the file.
#[derive(Debug)]
pub(crate) struct Known {
    guest: String,
    mode: String,
    /// Why it fails.
    pub(crate) reason: String,
}

/// Every known failure.
pub(crate) fn all() -> &'static [Known] {
    static ALL: OnceLock<Vec<Known>> = OnceLock::new();
    ALL.get_or_init(|| lines().iter().map(|line| parse(line)).collect())
}

/// The entry for this guest in this mode.
pub(crate) fn find(guest: &str, mode: Mode) -> Option<&'static Known> {
    all().iter().find(|known| known.guest == guest && known.mode == mode.name())
}

/// What is wrong with the file, one line each.
pub(crate) fn complaints() -> Vec<String> {
    let mut found = Vec::new();
    let lines = lines();
    if !lines.is_sorted() {
        found.push("known_failures.tsv is not sorted".to_owned());
    }
    for known in all() {
        let (guest, mode) = (&known.guest, &known.mode);
        if !registry::guests().iter().any(|other| other.name == *guest) {
            found.push(format!("known_failures.tsv names {guest}, which is no guest"));
        }
        if !Mode::ALL.iter().any(|other| other.name() == mode) {
            found.push(format!("known_failures.tsv names {mode}, which is no mode"));
        }
        if known.reason.trim().is_empty() {
            found.push(format!("known_failures.tsv gives no reason for {guest} in {mode}"));
        }
        if all().iter().filter(|other| other.guest == *guest && other.mode == *mode).count() > 1 {
            found.push(format!("known_failures.tsv has {guest} in {mode} twice"));
        }
    }
    found
}

fn lines() -> Vec<String> {
    let path = registry::folder().join("known_failures.tsv");
    let text = std::fs::read_to_string(&path).expect("the list of known failures");
    text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(str::to_owned).collect()
}

fn parse(line: &str) -> Known {
    let mut fields = line.splitn(3, '\t').map(str::to_owned);
    let mut next = || fields.next().unwrap_or_default();
    Known { guest: next(), mode: next(), reason: next() }
}
