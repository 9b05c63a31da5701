//! What `relive races` has later recordings order: that a recording which did not replay
//! does then, at no more cost than it takes.
//!
//! Apart from the guests at the level of atomics, of which any lesson will do that makes
//! them replay.

#[path = "launching/desk.rs"]
mod desk;

use desk::{Desk, Run};

const LATE: &str = include_str!("learning/late.c");
/// Instructions of its that access the flag.
const AT_THE_FLAG: usize = 4;

fn record(desk: &Desk) -> String {
    let recorded = desk.relive(["record", "-q", "--level", "atomics", "--", "./late"]);
    assert_eq!((recorded.status, &*recorded.stderr), (Some(0), ""));
    recorded.stdout
}

/// How many accesses a search says that it has learnt.
fn learnt(run: &Run) -> Option<usize> {
    let line = run.stderr.lines().find(|line| line.contains(" more accesses are ordered in later recordings"))?;
    line.strip_prefix("relive: ")?.split(' ').next()?.parse().ok()
}

#[test]
fn of_a_thread_that_waits_in_vain_its_loop_is_learnt() {
    let desk = Desk::new();
    desk.build("late", LATE);
    record(&desk);
    // The replay diverges: the flag is not set for long.
    let lesson = desk.relive(["races"]);
    assert!(learnt(&lesson).is_some_and(|count| (1..=AT_THE_FLAG).contains(&count)), "{lesson:?}");
    let printed = record(&desk);
    for _ in 0..2 {
        assert_eq!(desk.relive(["replay", "-q"]).stdout, printed);
    }
    let search = desk.relive(["races"]);
    assert_eq!(search.status, Some(66), "what is ordered races still: {search:?}");
    assert_eq!(learnt(&search), None, "a recording that replays needs no more order");
}
