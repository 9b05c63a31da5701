//! What Rust's users hand over by: the crates that most parallel programs stand on.
//!
//! Apart from the guests because these programs are built with other people's code
//! (`guests/crates`), whose plain loads and stores nothing but debug information tells to be atomic.

#[path = "launching/desk.rs"]
mod desk;

use desk::{Desk, Run};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Recordings of each program, of which two must differ.
const RECORDINGS: usize = 3;
/// No more are made until two differ.
const TRIES: usize = 20;
const REPLAYS: usize = 5;

/// A program of `guests/crates`.
fn program(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = root.join("target/crates");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "-q", "--release", "--locked", "--manifest-path"]).arg(root.join("guests/crates/Cargo.toml"));
    let built = build.arg("--target-dir").arg(&target).env_remove("RUSTFLAGS").status().expect("cargo");
    assert!(built.success(), "cargo builds guests/crates");
    target.join("release").join(name)
}

/// Nothing was learnt of the program, which was never recorded before; each replay is as the recording.
fn check(name: &str) {
    let (desk, program) = (Desk::new(), program(name));
    let mut first: Option<Run> = None;
    let mut differ = false;
    for number in 1..=TRIES {
        if number > RECORDINGS && differ {
            return;
        }
        let trace = format!("trace-{number}");
        let recording = ["record", "-q", "--level", "atomics", "-o", &*trace, &*program.to_string_lossy()];
        let recorded = desk.relive(recording);
        assert_eq!((recorded.status, &*recorded.stderr), (Some(0), ""), "{}", recorded.stdout);
        for _ in 0..REPLAYS {
            let replayed = desk.relive(["replay", &trace]);
            assert_eq!((replayed.status, &*replayed.stdout), (Some(0), &*recorded.stdout), "{}", replayed.stderr);
        }
        differ |= first.as_ref().is_some_and(|first| first.stdout != recorded.stdout);
        first.get_or_insert(recorded);
    }
    panic!("{TRIES} recordings of {name} printed the same: it shows no order");
}

#[test]
fn what_a_script_starts_is_looked_at_as_well_even_if_nobody_ends_the_recording() {
    let (desk, program) = (Desk::new(), program("with_parking_lot"));
    for script in ["\"$0\"; \"$0\"", "\"$0\"; kill -9 $PPID"] {
        let recorded =
            desk.relive(["record", "-q", "--level", "atomics", "sh", "-c", script, &*program.to_string_lossy()]);
        assert!(!recorded.stdout.is_empty(), "{recorded:?}");
        for _ in 0..REPLAYS {
            let replayed = desk.relive(["replay"]);
            assert_eq!(replayed.stdout, recorded.stdout, "{script}\n{}", replayed.stderr);
            assert!(recorded.status.is_none() || replayed.status == recorded.status, "{script}\n{}", replayed.stderr);
        }
    }
}

#[test]
fn work_that_rayon_steals_is_stolen_again() {
    check("with_rayon");
}

#[test]
fn tasks_of_tokio_run_where_and_when_they_ran() {
    check("with_tokio");
}

#[test]
fn queues_and_channels_of_crossbeam_hand_over_as_they_did() {
    check("with_crossbeam");
}

#[test]
fn locks_of_parking_lot_are_taken_in_turn() {
    check("with_parking_lot");
}

#[test]
fn what_an_atomic_flag_publishes_does_not_race_at_any_level_and_the_other_is_named() {
    const SAYS: &str = "debug information tells of plain accesses to atomic or volatile variables (";
    let (desk, program) = (Desk::new(), program("flag_and_race"));
    for (option, says) in [("--environment", true), ("--level=atomics", false)] {
        let recorded = desk.relive(["record", "-q", option, &*program.to_string_lossy()]);
        assert_eq!((recorded.status, &*recorded.stdout), (Some(0), "4711 true\n"), "{}", recorded.stderr);
        let found = desk.relive(["races"]);
        assert_eq!((found.status, found.stderr.contains(SAYS)), (Some(66), says), "{option}\n{found:?}");
        assert!(found.stdout.starts_with("1 data race"), "{option}\n{found:?}");
        let quiet = desk.relive(["races", "-q"]);
        assert_eq!((quiet.status, &*quiet.stderr), (Some(66), ""), "{option}");
    }
}
