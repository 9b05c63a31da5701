//! Where what was learnt counts: in any recording that loads the file of code, in later builds of
//! it, and elsewhere with a list that is handed on.
//!
//! Apart from `learning.rs`, which is about what is learnt.

#[path = "launching/desk.rs"]
mod desk;

use desk::{Desk, Run};
use std::fs;

const STOP: &str = include_str!("learning/stop.c");
const LIST: &str = "orders.json";

/// Another build: other addresses, registers and functions, and the flag elsewhere.
fn build_again(desk: &Desk) {
    let other = STOP.replace("static char stop;", "static char before[40], stop;").replace(
        "int main(void)",
        "void *more(void *argument)\n{\n    before[3]++;\n    return argument ? work(argument) : NULL;\n}\n\nint main(void)",
    );
    assert_ne!(other, STOP);
    desk.build_with("stop", &other, &["-O1", "-fno-omit-frame-pointer", "-fcf-protection"]);
}

/// A desk with the program, which has taught the list given by `options`.
fn taught(options: &[&str]) -> Desk {
    let desk = Desk::new();
    desk.build("stop", STOP);
    let lesson = desk.relive([&["record", "--learn"], options, &["./stop"]].concat());
    assert!(lesson.stderr.contains("; recording again with "), "{lesson:?}");
    desk
}

/// Records, and replays what that printed; what relive said of the recording.
fn check(desk: &Desk, options: &[&str], command: &[&str]) -> Run {
    let recorded = desk.relive([&["record"], options, &["--"], command].concat());
    assert_eq!(recorded.status, Some(0), "{recorded:?}");
    for _ in 0..2 {
        let replayed = desk.relive(["replay"]);
        assert_eq!((replayed.status, &*replayed.stderr), (Some(0), ""));
        assert_eq!(replayed.stdout, recorded.stdout);
    }
    recorded
}

/// How many of how many accesses were found in another build.
fn found(run: &Run) -> Option<[usize; 2]> {
    let line = run.stderr.lines().find(|line| line.contains("learnt in other builds"))?;
    let mut numbers = line.split(' ').filter_map(|word| word.parse().ok());
    Some([numbers.next()?, numbers.next()?])
}

#[test]
fn a_lesson_counts_in_a_later_build() {
    let desk = taught(&[]);
    build_again(&desk);
    let recorded = check(&desk, &["--level", "atomics"], &["./stop"]);
    let [there, of] = found(&recorded).unwrap();
    assert!((1..=of).contains(&there), "{recorded:?}");
    // From then on it is one of that build.
    assert_eq!(found(&check(&desk, &["--level", "atomics"], &["./stop"])), None);
}

#[test]
fn a_lesson_counts_for_whatever_starts_the_program() {
    let desk = taught(&[]);
    let recorded = check(&desk, &["--level", "atomics"], &["sh", "-c", "./stop; echo done"]);
    assert!(recorded.stdout.ends_with("done\n"));
    let manifest = fs::read_to_string(desk.latest().join("manifest.json")).unwrap();
    assert!(manifest.contains("\"accesses\""));
    // Of a program that does not have the code nothing is ordered.
    check(&desk, &["--level", "atomics"], &["/bin/true"]);
    let manifest = fs::read_to_string(desk.latest().join("manifest.json")).unwrap();
    assert!(!manifest.contains("\"accesses\""), "{manifest}");
}

#[test]
fn a_lesson_counts_for_a_program_that_the_recording_builds() {
    let desk = Desk::new();
    desk.build("stop", STOP);
    let command = ["sh", "-c", "gcc -g -O1 -pthread -o built stop.c && ./built"];
    let lesson = desk.relive([&["record", "--learn"], &command[..]].concat());
    assert!(lesson.stderr.contains("; recording again with "), "{lesson:?}");
    fs::remove_file(desk.path("built")).unwrap();
    check(&desk, &["--level", "atomics"], &command);
}

#[test]
fn a_list_counts_elsewhere_and_is_changed_by_who_learns() {
    let list = fs::read_to_string(taught(&["--learnt", LIST]).path(LIST)).unwrap();
    assert!(list.contains("\"function\": \"work\""), "{list}");
    // Another folder, another build, no cache.
    let desk = Desk::new();
    fs::write(desk.path(LIST), &list).unwrap();
    build_again(&desk);
    let recorded = check(&desk, &["--learnt", LIST], &["./stop"]);
    assert!(found(&recorded).is_some_and(|[found, _]| found > 0), "{recorded:?}");
    assert_eq!(fs::read_to_string(desk.path(LIST)).unwrap(), list);
    let learnt = desk.relive(["record", "-q", "--learn", "--learnt", LIST, "./stop"]);
    assert_eq!((learnt.status, &*learnt.stderr), (Some(0), ""));
    assert_eq!(found(&check(&desk, &["--learnt", LIST], &["./stop"])), None, "the list is of this build");
}

#[test]
fn what_is_no_list_is_refused() {
    let desk = Desk::new();
    fs::write(desk.path(LIST), "[1]").unwrap();
    let run = desk.relive(["record", "--learnt", LIST, "/bin/true"]);
    assert_eq!(run.status, Some(125));
    insta::assert_snapshot!(run.stderr, @"relive: read what was learnt: orders.json is no list of learnt accesses (invalid type: integer `1`, expected struct Module at line 1 column 2); name another file with --learnt");
    assert!(!desk.path("traces/latest").exists(), "nothing was recorded");
    // One that is not there is made by who learns.
    let run = desk.relive(["record", "--learnt", "no/such/list", "--", "/bin/true"]);
    assert_eq!(run.status, Some(0));
    assert!(
        run.stderr.starts_with("relive: no/such/list is not there: nothing is ordered that was learnt\n"),
        "{run:?}"
    );
}
