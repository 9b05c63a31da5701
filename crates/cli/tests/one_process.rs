//! One process of a recorded tree, replayed without the others: `replay --process`.
//!
//! Apart from the replays of everything because each process is judged by what it
//! printed itself, and by its own end.

#[path = "trial/dice.rs"]
mod dice;
#[path = "environment/guest.rs"]
mod guest;
#[path = "trial/text.rs"]
mod text;
#[path = "trial/timed.rs"]
mod timed;

use guest::guest;
use insta::assert_snapshot;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use timed::{Ended, RELIVE, run};

const LIMIT: Duration = Duration::from_secs(60);
const REPLAYS: usize = 3;

fn record(trace: &Path, here: &Path, command: &[&str]) -> Ended {
    let mut record = Command::new(RELIVE);
    record.args(["record", "--environment", "-q", "-o"]).arg(trace).arg("--").args(command).current_dir(here);
    let recorded = run(&mut record, LIMIT);
    assert_eq!(recorded.stderr, "", "{}", recorded.line);
    recorded
}

/// `relive replay --process NUMBER TRACE`, options still to be added.
fn replay(trace: &Path, number: u64) -> Command {
    let mut replay = Command::new(RELIVE);
    replay.args(["replay", "--process", &number.to_string()]).arg(trace).current_dir("/");
    replay
}

/// The processes as `stats` lists them.
fn processes(trace: &Path) -> Vec<Value> {
    let listed = run(Command::new(RELIVE).args(["stats", "--json"]).arg(trace), LIMIT).expect_code(0);
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    listed["processes"].as_array().expect("processes").clone()
}

fn number(process: &Value) -> u64 {
    process["index"].as_u64().expect("a number")
}

/// Replays one process again and again: each time these bytes and this exit status, and no divergence on the way.
fn check(trace: &Path, process: &Value, wanted: &[u8], status: i32) {
    for attempt in 1..=REPLAYS {
        let replayed = run(&mut replay(trace, number(process)), LIMIT);
        let seen = (replayed.code, String::from_utf8_lossy(&replayed.stdout));
        assert_eq!(seen, (status, String::from_utf8_lossy(wanted)), "{process} {attempt}\n{}", replayed.stderr);
        assert!(!replayed.stderr.contains("diverged"), "{process} {attempt}\n{}", replayed.stderr);
    }
}

fn is_guest(process: &Value) -> bool {
    process["program"].as_str().is_some_and(|program| program.ends_with("/tree"))
}

/// What a process printed by the guest's word, where every line begins with its id, and the status that it promised.
fn own_part(process: &Value, printed: &str) -> (String, i32) {
    let prefix = format!("{} ", process["pid"]);
    let own: Vec<&str> = printed.lines().filter(|line| line.starts_with(&prefix)).collect();
    let executed = process["origin"].as_str().expect("an origin").starts_with("exec");
    // Another program in the same process comes after all that was before it.
    let first = if executed { own.iter().position(|line| line.ends_with(" executed 0")) } else { Some(0) };
    let own = &own[first.expect("its first line")..];
    let status = own.iter().find_map(|line| line.split_once(" shall end with ")?.1.parse().ok());
    let text = own.iter().fold(String::new(), |text, line| text + line + "\n");
    (text, status.expect("its status"))
}

#[test]
fn every_process_of_a_tree_by_itself() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (program, trace) = (guest(scratch.path(), "tree"), scratch.path().join("trace"));
    let recorded = record(&trace, scratch.path(), &[program.to_str().expect("UTF-8")]).expect_code(9);
    let all = processes(&trace);
    let origins: Vec<&str> = all.iter().filter_map(|process| process["origin"].as_str()).collect();
    let made = |how: &str| origins.iter().filter(|origin| origin.starts_with(how)).count();
    assert_eq!([made("start"), made("fork"), made("spawn"), made("exec")], [1, 6, 3, 1], "{origins:?}");
    let wanted = |process: &Value| {
        // Whatever is no guest is the shell of `system`.
        if is_guest(process) { own_part(process, &recorded.text()) } else { (String::new(), 3) }
    };
    for process in &all {
        let (wanted, status) = wanted(process);
        check(&trace, process, wanted.as_bytes(), status);
    }
    // A replay of everything learns the order in which threads must wait: each process keeps to its own part of it.
    run(Command::new(RELIVE).arg("replay").arg(&trace), LIMIT).expect_code(9);
    for process in &all {
        let (wanted, status) = wanted(process);
        check(&trace, process, wanted.as_bytes(), status);
    }
    let deep = all.iter().filter(|process| process["parent"].as_u64().is_some_and(|parent| parent > 0)).count();
    assert!(deep >= 4, "grand-children are among them: {all:?}");
}

#[test]
fn the_programs_of_a_pipeline() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (here, trace) = (scratch.path().join("here"), scratch.path().join("trace"));
    std::fs::create_dir(&here).expect("a folder");
    std::fs::write(here.join("in"), text::text(100_000, 3)).expect("the input");
    let command = "sort -r in | tr a-z A-Z > out; (date +%N; exit 5) | cat; exec wc -c out";
    let recorded = record(&trace, &here, &["sh", "-c", command]).expect_code(0);
    let sorted = run(Command::new("sort").args(["-r", "in"]).current_dir(&here), LIMIT).expect_code(0).stdout;
    let out = std::fs::read(here.join("out")).expect("the output");
    std::fs::remove_dir_all(&here).expect("the inputs are gone");
    let (now, count) = recorded.stdout.split_at(recorded.text().find('\n').expect("a line") + 1);
    let all = processes(&trace);
    let program = |name: &str| {
        let is = |process: &&Value| process["program"].as_str().is_some_and(|program| program.ends_with(name));
        all.iter().rfind(is).unwrap_or_else(|| panic!("no {name}: {all:?}"))
    };
    // Where a pipe or a file took the output, it is shown all the same.
    for (process, wanted, status) in [
        (program("/sort"), &sorted[..], 0),
        (program("/tr"), &out[..], 0),
        (program("/date"), now, 0),
        (program("/cat"), now, 0),
        (program("/wc"), count, 0),
        // The shell itself is in the end what it executes.
        (&all[0], count, 0),
    ] {
        check(&trace, process, wanted, status);
    }
    let subshell = all.iter().find(|process| process["end"] == "exited 5").expect("the subshell");
    check(&trace, subshell, b"", 5);
    assert!(!here.exists(), "a replay made {}", here.display());
}

#[test]
fn a_program_that_is_ended_as_it_starts() {
    /// However far it has come by then: in the shell, in no program, in its own.
    const TERMINATED: i32 = 128 + 15;
    const RECORDINGS: usize = 4;
    let scratch = tempfile::tempdir().expect("a folder");
    for number in 0..RECORDINGS {
        let trace = scratch.path().join(number.to_string());
        let command = "exec 2> /dev/null; sleep 100 & kill $!; wait $!";
        record(&trace, scratch.path(), &["sh", "-c", command]).expect_code(TERMINATED);
        for process in processes(&trace) {
            check(&trace, &process, b"", TERMINATED);
        }
    }
}

#[test]
fn gdb_has_the_process_that_was_asked_for() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (program, trace) = (guest(scratch.path(), "tree"), scratch.path().join("trace"));
    let recorded = record(&trace, scratch.path(), &[program.to_str().expect("UTF-8")]).expect_code(9);
    let all = processes(&trace);
    let debug = |process: &Value, commands: &[&str]| {
        let mut gdb = replay(&trace, number(process));
        gdb.args(["--gdb", "--gdb-batch"]);
        for command in commands {
            gdb.args(["--gdb-command", command]);
        }
        run(&mut gdb, LIMIT)
    };
    let expect = |said: &Ended, words: &[&str]| {
        for word in words {
            assert!(said.text().contains(word), "gdb never said `{word}`: {}\n{}", said.text(), said.stderr);
        }
    };
    let crashes = |process: &&Value| is_guest(process) && own_part(process, &recorded.text()).1 == 139;
    let deep = all.iter().find(crashes).expect("the grand-child");
    let said = debug(deep, &["break grandchild", "continue", "up", "print mine", "delete", "continue"]);
    expect(&said, &["Breakpoint 1, grandchild (", "in forked (", "received signal SIGSEGV"]);
    let drew = recorded.text().lines().find_map(|line| Some(line.split_once(" inherited ")?.1.to_owned()));
    expect(&said, &[&format!("= {}", drew.expect("what it inherited"))]);

    let printed = |process: &Value| own_part(process, &recorded.text()).0;
    let executed = all.iter().find(|process| process["origin"].as_str().is_some_and(|from| from.starts_with("exec")));
    let executed = executed.expect("an executed one");
    let said = debug(executed, &["break main", "continue", "print count", "continue"]);
    expect(&said, &["Breakpoint 1, main (count=2", "exited with code 043"]);
    printed(executed).lines().for_each(|line| expect(&said, &[line]));

    let said = debug(&all[0], &["break sharing", "break tree", "run", "delete", "continue"]);
    expect(&said, &["Breakpoint 2, tree (", "exited with code 011"]);
    printed(&all[0]).lines().for_each(|line| expect(&said, &[line]));
}

/// The one line of a replay that is refused.
fn refusal(trace: &Path, number: u64, folder: &Path) -> String {
    let refused = run(&mut replay(trace, number), LIMIT).expect_code(timed::TOOL_FAILED);
    assert_eq!((refused.text().as_str(), refused.stderr.lines().count()), ("", 1), "{}", refused.stderr);
    refused.stderr.replace(folder.canonicalize().expect("the folder").to_str().expect("UTF-8"), "FOLDER")
}

#[test]
fn what_cannot_be_replayed_alone_is_refused_with_the_reason() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (here, program) = (scratch.path(), guest(scratch.path(), "tree"));
    let sharing = here.join("sharing");
    record(&sharing, here, &[program.to_str().expect("UTF-8"), "sharing"]).expect_code(0);
    let refused = refusal(&sharing, 0, here);
    assert_snapshot!(refused, @"relive: replay FOLDER/sharing --process: process 0 shares writable memory with the processes that it makes, which can only be replayed together; leave out --process");
    assert_eq!(refusal(&sharing, 1, here), refused, "the child shares it with its parent");
    assert_snapshot!(refusal(&sharing, 2, here), @"relive: replay FOLDER/sharing --process 2: there is no such process, only 0 (tree), 1 (tree, fork of 0)");
    let plain = here.join("plain");
    run(Command::new(RELIVE).args(["record", "-q", "-o"]).arg(&plain).args(["--", "sh", "-c", "date; date"]), LIMIT);
    assert_snapshot!(refusal(&plain, 1, here), @"relive: replay FOLDER/plain --process 1: what its processes take from one another is not recorded; record with --environment");
}
