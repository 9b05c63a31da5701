//! What processes do to memory that they share, by instructions: ordered among them at the level of atomics.
//!
//! Apart from the guests because each way of sharing memory has its own traps: by what address, in
//! which place of what, and who is killed meanwhile.

#[path = "launching/desk.rs"]
mod desk;

use desk::Desk;
use std::collections::BTreeSet;

const TICKETS: &str = include_str!("among_processes/tickets.c");
const TOGETHER: &str = include_str!("among_processes/together.c");
const FLAGS: &str = include_str!("among_processes/flags.c");
const REPLAYS: usize = 3;

/// Records the command at the level of atomics, until two recordings differ if it `varies`, and replays each.
fn check(desk: &Desk, varies: bool, command: &[&str]) {
    const RECORDINGS_MAX: usize = 20;
    let mut printed = BTreeSet::new();
    for _ in 0..RECORDINGS_MAX {
        let options = ["record", "-q", "--environment", "--level", "atomics", "--"];
        let recorded = desk.relive([&options, command].concat());
        assert_eq!((recorded.status, &*recorded.stderr), (Some(0), ""), "{command:?}");
        for _ in 0..REPLAYS {
            let replayed = desk.relive(["replay"]);
            assert_eq!((replayed.status, &*replayed.stderr), (Some(0), ""), "{command:?}");
            assert_eq!(replayed.stdout, recorded.stdout, "{command:?}");
        }
        printed.insert(recorded.stdout);
        if printed.len() > 1 || !varies {
            return;
        }
    }
    panic!("{command:?}: nothing depends on order");
}

fn check_tickets(how: &str) {
    let desk = Desk::new();
    desk.build("tickets", TICKETS);
    check(&desk, how != "killed", &["./tickets", how]);
}

#[test]
fn memory_that_children_inherit() {
    check_tickets("inherited");
}

#[test]
fn a_file_of_which_each_maps_another_part() {
    check_tickets("mapped");
}

#[test]
fn files_that_all_map_at_the_same_moment() {
    let desk = Desk::new();
    desk.build("together", TOGETHER);
    // One replay in five had two places for one of the files.
    for _ in 0..5 {
        check(&desk, false, &["./together"]);
    }
}

#[test]
fn a_segment_that_each_attaches() {
    check_tickets("attached");
}

#[test]
fn whoever_is_killed_within_an_instruction_holds_nobody_up() {
    check_tickets("killed");
}

#[test]
fn plain_flags_of_shared_memory_are_learnt() {
    let desk = Desk::new();
    desk.build("flags", FLAGS);
    let lesson = desk.relive(["record", "--learn", "--environment", "./flags"]);
    assert!(lesson.status == Some(0) && lesson.stderr.contains("; recording again with "), "{lesson:?}");
    check(&desk, true, &["./flags"]);
}
