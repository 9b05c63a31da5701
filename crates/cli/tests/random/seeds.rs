//! Which seeds a test of random programs tries, shared out to parts that run side by
//! side.
//!
//! Apart because random orders and random races are tried in the same way.
//! `RELIVE_RANDOM_CASES` says how many are tried in all and `RELIVE_RANDOM_FIRST` which
//! seed is the first.

use std::ops::Range;

/// Tests that share the seeds.
const PARTS: u64 = 4;
/// After so many failures in one part the rest would only repeat them.
const FAILURES_MAX: usize = 3;

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

/// The seeds of one part.
fn seeds(part: u64, cases: u64) -> Range<u64> {
    let (first, cases) = (setting("RELIVE_RANDOM_FIRST", 0), setting("RELIVE_RANDOM_CASES", cases));
    first + cases * part / PARTS..first + cases * (part + 1) / PARTS
}

/// Tries the seeds of one part; `cases` are tried in all unless the environment says otherwise.
pub(crate) fn try_part(part: u64, cases: u64, check: impl Fn(u64) -> Result<(), String>) {
    let failures = seeds(part, cases).filter_map(|seed| check(seed).err());
    let failures: Vec<String> = failures.take(FAILURES_MAX).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
