//! What several processes write to one place: a replay shows it byte by byte as it was.
//!
//! Apart from the guests because it is the place that counts: who reads there, and when.

#[path = "launching/desk.rs"]
mod desk;

use desk::Desk;

const LINES: &str = include_str!("one_output/lines.c");

/// Records the program, whose output goes where the shell's `to` says and comes out there, and replays it: the same bytes come out. Two recordings differ.
fn check(lines: &str, to: &str) {
    const RECORDINGS_MIN: usize = 5;
    const RECORDINGS_MAX: usize = 20;
    let desk = Desk::new();
    desk.build("lines", LINES);
    let mut before = None;
    let mut differ = false;
    for recording in 0..RECORDINGS_MAX {
        if differ && recording >= RECORDINGS_MIN {
            return;
        }
        let recorded = desk.shell(&format!("$RELIVE record -q --environment -- ./lines {lines} {to}"));
        let replayed = desk.shell("$RELIVE replay 2>&1");
        assert_eq!((replayed.status, &*replayed.stderr), (Some(0), ""));
        let at =
            recorded.stdout.lines().zip(replayed.stdout.lines()).position(|(recorded, replayed)| recorded != replayed);
        assert_eq!(at, None, "the first line that is another one");
        assert!(recorded.stdout == replayed.stdout && recorded.stdout.ends_with('\n'));
        differ |= before.replace(recorded.stdout.clone()).is_some_and(|before| before != recorded.stdout);
    }
    assert!(differ, "nothing depends on order");
}

#[test]
fn lines_that_processes_write_at_once() {
    check("1000 12", "2>&1 | cat");
}

#[test]
fn lines_that_wait_for_a_reader() {
    check("100 3000", "2>&1 | { sleep 0.1; cat; }");
}

#[test]
fn lines_in_a_file() {
    check("1000 12", ">kept 2>&1; cat kept");
}

/// One fills a pipe that nobody reads for a while, and is killed in that; another one writes then.
const KILLED: &str = "sh -c 'head -c 300000 /dev/zero & victim=$!; sleep 0.3; kill -9 $victim; wait; echo behind it'";

#[test]
fn whoever_is_killed_while_it_writes_holds_nobody_up() {
    let desk = Desk::new();
    let recorded =
        desk.shell(&format!("$RELIVE record -q --environment -- {KILLED} | {{ sleep 0.6; cat; }} | tail -c 10"));
    assert_eq!((recorded.status, &*recorded.stdout, &*recorded.stderr), (Some(0), "behind it\n", ""));
    let replayed = desk.shell("$RELIVE replay | tail -c 10");
    assert_eq!((replayed.status, &*replayed.stdout), (Some(0), "behind it\n"), "{}", replayed.stderr);
}
