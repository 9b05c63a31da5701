//! A command recorded with its environment and replayed with its inputs gone, in
//! another folder and with more environment: it must print the same.
//!
//! Apart from the tests because programs, guests and single calls are judged alike.
#![allow(dead_code, reason = "each test binary uses the part it needs")]

#[path = "../trial/runs.rs"]
mod runs;

use crate::guest::guest;
use crate::text;
use crate::timed::{Ended, RELIVE, TOOL_FAILED, long, run};
use runs::runs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// The first replay goes by timestamps and learns, the others go by what it learnt.
const REPLAYS: usize = 3;
/// Of one whose recordings did not differ.
const RECORDINGS_MAX: usize = 8;
/// How often what signals strike is made to compute for twice as long.
const LONGER_MAX: u32 = 5;

/// A folder of inputs that is gone when the replay comes.
pub(crate) fn inputs(folder: &Path) {
    std::fs::create_dir(folder).expect("a folder");
    std::fs::write(folder.join("small"), "one two\nthree four\n").expect("an input");
    std::fs::write(folder.join("large"), text::text(600_000, 5)).expect("an input");
    std::fs::write(folder.join("doomed"), "").expect("an input");
}

/// One recording of `command`, which runs where its inputs are, and replays of it with `flags` without them.
fn once(command: &[&str], flags: &[&str], scratch: &Path) -> Ended {
    tried(command, flags, scratch).unwrap_or_else(|diverged| panic!("{}", diverged.stderr))
}

/// The same; the replay that said that it diverged, if one did.
fn tried(command: &[&str], flags: &[&str], scratch: &Path) -> Result<Ended, Ended> {
    let (here, trace) = (scratch.join("inputs"), scratch.join("trace"));
    inputs(&here);
    let mut record = Command::new(RELIVE);
    record.args(["record", "--environment", "-o"]).arg(&trace).arg("--").args(command).current_dir(&here);
    let recorded = run(&mut record, LIMIT);
    let said = recorded.stderr.lines().find(|line| line.contains("recording stopped") || line.contains("not recorded"));
    assert!(said.is_none(), "{}: {said:?}", recorded.line);
    std::fs::remove_dir_all(&here).expect("the inputs are gone");
    for number in 1..=REPLAYS {
        let mut replay = Command::new(RELIVE);
        // More environment moves the stack of whoever has it.
        replay.arg("replay").args(flags).arg(&trace).current_dir("/").env("LONGER", "x".repeat(100 * number));
        let replayed = run(&mut replay, LIMIT);
        if replayed.code == TOOL_FAILED && replayed.stderr.contains(" diverged: ") {
            std::fs::remove_dir_all(&trace).expect("the trace is ours");
            return Err(replayed);
        }
        assert_eq!(replayed.code, recorded.code, "{} replay {number}\n{}", recorded.line, replayed.stderr);
        let what = (replayed.text(), recorded.text());
        assert!(replayed.stdout == recorded.stdout, "{} replay {number}: {what:?}\n{}", recorded.line, replayed.stderr);
        assert!(!here.exists(), "{}: replay {number} made {}", recorded.line, here.display());
    }
    std::fs::remove_dir_all(&trace).expect("the trace is ours");
    Ok(recorded)
}

/// Records and replays `command`; recordings of what `varies` must differ. What one of them printed.
pub(crate) fn check(varies: bool, command: impl Fn(&Path) -> Vec<String>) -> String {
    let scratch = tempfile::tempdir().expect("a folder");
    let words = command(scratch.path());
    let (printed, differ) = several(varies, &[], &words, scratch.path());
    assert!(!varies || differ, "{words:?} takes nothing from outside");
    printed
}

/// Records and replays `command`, where what came first within microseconds, a look or what it looks at, no recording tells:
/// seldom a replay says that it was the other one, and more often on a busy machine. Most replay.
pub(crate) fn check_mostly(varies: bool, command: impl Fn(&Path) -> Vec<String>) {
    let scratch = tempfile::tempdir().expect("a folder");
    let words = command(scratch.path());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (mut printed, mut diverged) = (Vec::new(), Vec::new());
    while printed.len() < runs() || printed.len() <= diverged.len() || (varies && !differ(&printed)) {
        match tried(&words, &[], scratch.path()) {
            Ok(recorded) => printed.push(recorded.stdout),
            Err(replayed) => diverged.push(replayed.stderr),
        }
        assert!(printed.len() + diverged.len() <= RECORDINGS_MAX, "{words:?}: {} replay, {diverged:?}", printed.len());
    }
    assert!(!printed[0].is_empty(), "{words:?} prints nothing");
}

/// Records and replays `command`, which lets time pass as in [`check_mostly`]: of most recordings no replay, be it one that
/// goes ahead or one by the learnt order, is made twice.
pub(crate) fn check_at_once(command: impl Fn(&Path) -> Vec<String>) {
    let scratch = tempfile::tempdir().expect("a folder");
    let words = command(scratch.path());
    let (mut at_once, mut others) = (0, Vec::new());
    while at_once <= others.len() {
        assert!(others.len() < RECORDINGS_MAX / 2, "{words:?}: {at_once} replay at once, {others:?}");
        match replayed_at_once(&words, &scratch.path().join("trace")) {
            Ok(()) => at_once += 1,
            Err(said) => others.push(said),
        }
    }
}

/// One recording of `words` and its replays; what the first said that had something to say.
fn replayed_at_once(words: &[String], trace: &Path) -> Result<(), String> {
    let mut record = Command::new(RELIVE);
    let recorded = run(record.args(["record", "-q", "--environment", "-o"]).arg(trace).arg("--").args(words), LIMIT);
    let replays = (1..=REPLAYS).map(|_| run(Command::new(RELIVE).arg("replay").arg(trace), LIMIT));
    let said = replays.map(|replayed| {
        if replayed.stderr.is_empty() {
            assert_eq!((replayed.code, replayed.text()), (recorded.code, recorded.text()), "{}", recorded.line);
            Ok(())
        } else {
            Err(replayed.stderr)
        }
    });
    let said = said.collect();
    std::fs::remove_dir_all(trace).expect("the trace is ours");
    said
}

fn differ(recordings: &[Vec<u8>]) -> bool {
    recordings.iter().any(|recording| *recording != recordings[0])
}

/// Records and replays `words` a few times. What the first recording printed, and whether another one printed something else:
/// where it `varies`, there are more until one does.
fn several(varies: bool, flags: &[&str], words: &[String], scratch: &Path) -> (String, bool) {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut recordings: Vec<Vec<u8>> = (0..runs()).map(|_| once(&words, flags, scratch).stdout).collect();
    // On a busy machine less than usual may happen twice in the same way.
    while varies && !differ(&recordings) && recordings.len() < RECORDINGS_MAX {
        recordings.push(once(&words, flags, scratch).stdout);
    }
    assert!(!recordings[0].is_empty(), "{words:?} prints nothing");
    (String::from_utf8_lossy(&recordings[0]).into_owned(), differ(&recordings))
}

/// Records and replays a guest that signals strike while it computes, for as long as its last argument says: half of that,
/// unless the long variants are wanted, and longer where no two recordings differ. On a fast machine it is soon over, and
/// nothing strikes it.
pub(crate) fn check_struck(flags: &[&str], name: &'static str, arguments: &'static [&'static str]) {
    let scratch = tempfile::tempdir().expect("a folder");
    let words = guest_with(name, arguments)(scratch.path());
    let (rounds, before) = words.split_last().expect("its name at least");
    let rounds: u32 = rounds.parse().expect("a number");
    let first = if long() { rounds } else { rounds / 2 };
    let differ = (0..LONGER_MAX).any(|times| {
        let words = [before, &[(first << times).to_string()]].concat();
        several(true, flags, &words, scratch.path()).1
    });
    assert!(differ, "{words:?} takes nothing from outside");
}

pub(crate) fn guest_with(name: &'static str, arguments: &'static [&'static str]) -> impl Fn(&Path) -> Vec<String> {
    move |scratch| {
        let program = guest(scratch, name).to_str().expect("UTF-8").to_owned();
        std::iter::once(program).chain(arguments.iter().map(|&word| word.to_owned())).collect()
    }
}

pub(crate) fn words(command: &'static [&'static str]) -> impl Fn(&Path) -> Vec<String> {
    move |_| command.iter().map(|&word| word.to_owned()).collect()
}
