//! SIGKILL at random times: to the program, to the launcher, to both.
//!
//! Apart because each needs the process ids of a running recording.

use crate::dice::Dice;
use crate::timed::{self, Ended, Running, TOOL_FAILED};
use crate::{LIMIT, is_prefix};
use std::path::Path;
use std::time::Duration;

const KILLS: usize = 24;
const KILLS_LONG: usize = 200;
/// The program's first line comes within this time, or never.
const START: Duration = Duration::from_secs(30);

fn kills() -> usize {
    if timed::long() { KILLS_LONG } else { KILLS }
}

/// Starts to record a program that would run for minutes, and lets it run for a random time.
fn recording(program: &Path, trace: &Path, dice: &mut Dice) -> (Running, u32) {
    let mut running = timed::start(timed::record(trace, program).args(["4", "100000000"]));
    let launcher = running.pid();
    assert!(running.wait_until(START, |_| !timed::children(launcher).is_empty()), "nothing was started");
    let program = timed::children(launcher)[0];
    // Every fourth kill comes at once, among the first instructions of the program.
    if dice.below(4) != 0 {
        assert!(running.wait_until(START, |r| !r.stdout_so_far().is_empty()), "the program wrote nothing");
        std::thread::sleep(Duration::from_micros(dice.below(150_000) as u64));
    } else {
        std::thread::sleep(Duration::from_micros(dice.below(10_000) as u64));
    }
    (running, program)
}

/// Replays what a kill left. All that the program had written is written again,
/// in the same order; the thread that held the lock may get one line further.
fn expect_prefix_again(trace: &Path, written: &[u8], code: i32) {
    for _ in 0..2 {
        let replayed = timed::run(&mut timed::replay(trace), LIMIT);
        replayed.expect_clean_report();
        let nothing_recorded = replayed.code == TOOL_FAILED && written.is_empty();
        assert!(replayed.code == code || nothing_recorded, "exit status {}\n{}", replayed.code, replayed.stderr);
        assert!(is_prefix(written, &replayed.stdout) || nothing_recorded, "{}", contrast(written, &replayed));
        let further = String::from_utf8_lossy(replayed.stdout.get(written.len()..).unwrap_or_default()).into_owned();
        assert!(further.lines().count() <= 1, "more than one line further: {further}");
    }
}

fn contrast(written: &[u8], replayed: &Ended) -> String {
    let tail = |b: &[u8]| String::from_utf8_lossy(&b[b.len().saturating_sub(300)..]).into_owned();
    let at = written.iter().zip(&replayed.stdout).position(|(a, b)| a != b);
    format!(
        "wrong replay: {} bytes recorded, {} replayed, first difference {at:?}\nrecorded …{}\nreplayed …{}\n{}",
        written.len(),
        replayed.stdout.len(),
        tail(written),
        tail(&replayed.stdout),
        replayed.stderr
    )
}

#[test]
fn a_killed_program_leaves_a_correct_prefix() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = timed::guest(folder.path(), "ledger");
    let mut dice = Dice::new(7);
    for number in 0..kills() {
        let trace = folder.path().join(format!("killed-{number}"));
        let (running, pid) = recording(&program, &trace, &mut dice);
        timed::kill(&pid.to_string());
        let recorded = running.wait(LIMIT).expect_code(128 + 9);
        recorded.expect_clean_report();
        expect_prefix_again(&trace, &recorded.stdout, 128 + 9);
        std::fs::remove_dir_all(&trace).expect("the trace");
    }
}

#[test]
fn program_and_launcher_killed_together_leave_a_correct_prefix() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = timed::guest(folder.path(), "ledger");
    let mut dice = Dice::new(8);
    for number in 0..kills() / 4 {
        let trace = folder.path().join(format!("both-{number}"));
        let (running, pid) = recording(&program, &trace, &mut dice);
        running.kill_group();
        timed::kill(&pid.to_string());
        let recorded = running.wait(LIMIT).expect_code(128 + 9);
        if !trace.exists() {
            continue;
        }
        expect_prefix_of_the_unfinished(&trace, &recorded.stdout);
    }
}

/// Nobody wrote down how that recording ended, so its replay may end in any
/// documented way, as long as it wrote the right lines.
fn expect_prefix_of_the_unfinished(trace: &Path, written: &[u8]) {
    let replayed = timed::run(&mut timed::replay(trace), LIMIT);
    replayed.expect_clean_report();
    if replayed.code == TOOL_FAILED && replayed.stdout.is_empty() {
        assert!(written.is_empty(), "{} bytes were written, none replayed\n{}", written.len(), replayed.stderr);
        return;
    }
    let shorter = written.len().min(replayed.stdout.len());
    assert_eq!(written[..shorter], replayed.stdout[..shorter], "{}", contrast(written, &replayed));
    assert!(is_prefix(written, &replayed.stdout), "{}", contrast(written, &replayed));
}

#[test]
fn a_program_goes_on_when_its_launcher_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = timed::guest(folder.path(), "ledger");
    let mut dice = Dice::new(9);
    let mut survivors = 0;
    for number in 0..kills() / 8 {
        let trace = folder.path().join(format!("orphan-{number}"));
        let mut running = timed::start(timed::record(&trace, &program).args(["4", "400000"]));
        let launcher = running.pid();
        assert!(running.wait_until(START, |r| !r.stdout_so_far().is_empty()), "the program wrote nothing");
        let orphan = timed::children(launcher);
        std::thread::sleep(Duration::from_micros(dice.below(50_000) as u64));
        timed::kill(&launcher.to_string());
        let ended = running.wait_until(LIMIT, |_| orphan.iter().all(|p| !Path::new(&format!("/proc/{p}")).exists()));
        let recorded = running.wait(LIMIT);
        if recorded.code == 0 {
            // On a busy machine it may be done before it is killed.
            continue;
        }
        survivors += 1;
        let recorded = recorded.expect_code(128 + 9);
        assert!(ended, "the program did not end after its launcher was killed\n{}", recorded.stderr);
        assert!(recorded.text().contains("\ndone, order "), "the program did not finish\n{}", recorded.stderr);
        let replayed = timed::run(&mut timed::replay(&trace), LIMIT);
        replayed.expect_clean_report();
        assert!(is_prefix(&replayed.stdout, &recorded.stdout), "{}", contrast(&recorded.stdout, &replayed));
        // All of it, if the space that was reserved lasted to the program's end.
        let ends = replayed.stdout == recorded.stdout || replayed.stderr.contains("the recording ends here");
        assert!(replayed.code == 0 && ends, "exit status {} at the end\n{}", replayed.code, replayed.stderr);
        std::fs::remove_dir_all(&trace).expect("the trace");
    }
    assert!(survivors > 0, "no launcher was killed in time");
}
