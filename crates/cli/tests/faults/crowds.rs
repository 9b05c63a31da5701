//! More threads than usual, at once and one after the other.
//!
//! Apart because they find what grows: memory, the trace, search times.

use crate::timed;
use std::time::Duration;

/// Threads alive at the same time.
const ALIVE: &str = "1000";
/// Threads created one after the other.
const IN_SEQUENCE: &str = "100000";
/// A slow machine needs a while for a hundred thousand threads.
const LIMIT: Duration = Duration::from_secs(300);

fn check(guest: &str, arguments: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let program = timed::guest(folder.path(), guest);
    let trace = folder.path().join("trace");
    let recorded = timed::run(timed::record(&trace, &program).args(arguments), LIMIT).expect_code(0);
    assert!(recorded.text().contains(arguments[0]), "the program did not finish\n{}", recorded.stderr);
    for _ in 0..2 {
        let replayed = timed::run(&mut timed::replay(&trace), LIMIT).expect_code(0);
        assert_eq!(replayed.text(), recorded.text(), "wrong replay\n{}", replayed.stderr);
    }
}

#[test]
fn a_thousand_threads_alive_at_once() {
    check("crowd", &[ALIVE]);
}

#[test]
fn a_hundred_thousand_threads_in_sequence() {
    check("parade", &[IN_SEQUENCE, "1000"]);
}
