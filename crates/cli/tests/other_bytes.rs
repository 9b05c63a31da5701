//! Replays in which a program writes other bytes than it did: threads that are ordered by what was not recorded.
//!
//! Apart from the recordings with their environment, which give the same again.

#[path = "environment/guest.rs"]
mod guest;
#[path = "trial/timed.rs"]
mod timed;

use guest::guest;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use timed::{RELIVE, TOOL_FAILED, run};

const LIMIT: Duration = Duration::from_secs(60);

/// Records the guest with these arguments in the folder, where it exits with this code; what it printed.
fn record<const N: usize>(folder: &Path, trace: &Path, arguments: [&str; N], code: i32) -> String {
    let mut record = Command::new(RELIVE);
    record.args(["record", "--environment", "-o"]).arg(trace).arg(guest(folder, "overtaken")).args(arguments);
    run(record.current_dir(folder), LIMIT).expect_code(code).text()
}

#[test]
fn a_replay_that_writes_something_else_diverges() {
    let scratch = tempfile::tempdir().expect("a folder");
    for (to, shown) in [("-", "c was first\n"), ("file", "")] {
        let trace = scratch.path().join(format!("trace{to}"));
        assert_eq!(record(scratch.path(), &trace, [to], 0), shown);
        for _ in 0..2 {
            let replayed = run(Command::new(RELIVE).arg("replay").arg(&trace), LIMIT).expect_code(TOOL_FAILED);
            let said = replayed.stderr.lines().next().expect("a report");
            assert!(said.contains("it writes other bytes than in the recording, at "), "{said}");
            assert!(said.ends_with("overtaken.c:59 (main)"), "{said}");
            assert_eq!(replayed.text(), "", "what the recording did not say is not shown as its words");
        }
    }
}

#[test]
fn a_replay_goes_on_behind_a_write_of_something_else_at_a_place_of_a_file() {
    let scratch = tempfile::tempdir().expect("a folder");
    let trace = scratch.path().join("trace");
    assert_eq!(record(scratch.path(), &trace, ["file", "at"], 3), "done\n");
    for number in 1..=3 {
        let replayed = run(Command::new(RELIVE).arg("replay").arg(&trace), LIMIT).expect_code(3);
        assert_eq!(replayed.text(), "done\n");
        let said: Vec<&str> = replayed.stderr.lines().collect();
        // The first replay is made again by timestamps, which may give what was written.
        let (again, said) = said.split_at(if number == 1 { 2 } else { 0 });
        if let [first, second] = again {
            assert!(
                first.starts_with("relive: the replay in which threads wait for little diverged: thread 0, "),
                "{first}"
            );
            assert_eq!(*second, "relive: trying again by timestamps");
        }
        assert!(said[0].contains("it writes other bytes to a file than in the recording, at "), "{said:?}");
        assert!(said[0].ends_with("overtaken.c:54 (main), and another time; the replay went on"), "{said:?}");
        assert_eq!(said.len(), 2, "{said:?}");
    }
}

/// A wait that ended by its timeout may be made once more, but nothing is found twice that was there once.
#[test]
fn a_wait_that_found_something_is_not_made_again() {
    let scratch = tempfile::tempdir().expect("a folder");
    let trace = scratch.path().join("trace");
    record(scratch.path(), &trace, ["file", "poll"], 0);
    let replayed = run(Command::new(RELIVE).arg("replay").arg(&trace), LIMIT).expect_code(TOOL_FAILED);
    assert!(replayed.stderr.contains("system call poll, recorded was none, at "), "{}", replayed.stderr);
}

#[test]
fn gdb_stops_in_a_child_that_it_follows_where_that_writes_something_else() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (program, trace) = (guest(scratch.path(), "overtaken"), scratch.path().join("trace"));
    let line = format!("{} -; exit 4", program.display());
    let mut record = Command::new(RELIVE);
    record.args(["record", "--environment", "-o"]).arg(&trace).args(["sh", "-c", &line]);
    assert_eq!(run(&mut record, LIMIT).expect_code(4).text(), "c was first\n");
    let mut gdb = Command::new(RELIVE);
    gdb.args(["replay", "--gdb", "--gdb-batch"]);
    for command in ["set follow-fork-mode child", "run"] {
        gdb.args(["--gdb-command", command]);
    }
    let debugged = run(gdb.arg(&trace), LIMIT);
    assert!(debugged.stderr.contains("it writes other bytes than in the recording"), "{}", debugged.stderr);
    assert!(debugged.text().contains("received signal SIGINT"), "{}", debugged.text());
}
