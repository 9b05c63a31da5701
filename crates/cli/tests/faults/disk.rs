//! No space, low limits, a folder that disappears.
//!
//! Apart because each of them takes the trace away from under a program that
//! must not notice.

use crate::timed::{self, Ended, RELIVE};
use crate::{LIMIT, is_prefix};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Bytes of the small file system: more than one window of a data file, less than two more.
const SMALL: &str = "2m";
/// Threads whose trace needs more than the small file system has.
const PARADE: &str = "30000";

/// The program ran to its end with the right result, and relive said that it stopped.
fn expect_unharmed(recorded: &Ended) {
    assert_eq!(recorded.code, 0, "the program failed\n{}", recorded.stderr);
    assert!(recorded.text().contains("done, "), "the program did not finish\n{}", recorded.stderr);
    let lines = recorded.stderr.lines().filter(|l| l.starts_with("relive: ")).count();
    assert!((1..=3).contains(&lines), "{lines} lines where one should say that recording stopped\n{}", recorded.stderr);
    recorded.expect_clean_report();
}

/// The replay goes as far as the recording did.
fn expect_prefix(trace: &Path, recorded: &Ended) {
    for _ in 0..2 {
        let replayed = timed::run(&mut timed::replay(trace), LIMIT);
        replayed.expect_clean_report();
        assert!(
            is_prefix(&replayed.stdout, &recorded.stdout),
            "wrong replay\nrecorded {}\nreplayed {}\n{}",
            recorded.text(),
            replayed.text(),
            replayed.stderr
        );
        assert!(replayed.text().contains("1000 passed"), "nothing was replayed\n{}", replayed.stderr);
        let says_so = replayed.code == 0 && replayed.stderr.contains("the recording ends here");
        assert!(says_so, "exit status {} at the recording's end\n{}", replayed.code, replayed.stderr);
    }
}

/// How to get a mount of our own here: as root, or as root of a user namespace.
fn mounting() -> Option<&'static [&'static str]> {
    let ways: [&[&str]; 2] = [&["unshare", "-m"], &["unshare", "-rm"]];
    ways.into_iter().find(|way| {
        let mut probe = Command::new(way[0]);
        probe.args(&way[1..]).args(["mount", "-t", "tmpfs", "none", "/mnt"]);
        probe.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
    })
}

#[test]
fn a_full_disk_stops_the_recording_and_not_the_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = timed::guest(folder.path(), "parade");
    let small = folder.path().join("small");
    let trace = folder.path().join("trace");
    std::fs::create_dir(&small).expect("a mount point");
    // Without the right to mount, a limit on the launcher's files is the nearest thing to a full disk.
    let (before, script): (&[&str], String) = match mounting() {
        Some(way) => (way, format!("mount -t tmpfs -o size={SMALL} none {} && ", small.display())),
        None => (&["env"], "ulimit -f 2048 && ".to_owned()),
    };
    let script = format!(
        "{script}{RELIVE} record -o {small}/trace -- {} {PARADE} 1000; code=$?; cp -r {small}/trace {}; exit $code",
        program.display(),
        trace.display(),
        small = small.display(),
    );
    let recorded = timed::run(Command::new(before[0]).args(&before[1..]).args(["sh", "-c", &script]), LIMIT);
    expect_unharmed(&recorded);
    expect_prefix(&trace, &recorded);
}

#[test]
fn where_there_is_no_space_for_a_new_process_the_replay_ends_in_front_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (small, trace) = (folder.path().join("small"), folder.path().join("trace"));
    std::fs::create_dir(&small).expect("a mount point");
    // No limit on files of the launcher is like this: each of them is small enough.
    let Some(way) = mounting() else { return };
    let script = format!(
        "mount -t tmpfs -o size={SMALL} none {small} && {RELIVE} record --environment -o {small}/trace -- \
         sh -c 'echo 1000 passed; cat /dev/null | cksum; echo done, all'; code=$?; cp -r {small}/trace {}; exit $code",
        trace.display(),
        small = small.display(),
    );
    let recorded = timed::run(Command::new(way[0]).args(&way[1..]).args(["sh", "-c", &script]), LIMIT);
    assert_eq!(recorded.code, 0, "the program failed\n{}", recorded.stderr);
    assert!(recorded.stderr.contains("no space left for the trace"), "{}", recorded.stderr);
    assert!(recorded.stderr.contains(", not to the end)"), "{}", recorded.stderr);
    expect_prefix(&trace, &recorded);
}

#[test]
fn a_removed_folder_stops_the_recording_and_not_the_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = timed::guest(folder.path(), "parade");
    let trace = folder.path().join("trace");
    let mut running = timed::start(timed::record(&trace, &program).args([PARADE, "100"]));
    let wrote = running.wait_until(Duration::from_secs(30), |r| !r.stdout_so_far().is_empty());
    std::fs::remove_dir_all(&trace).expect("the trace");
    let recorded = running.wait(LIMIT);
    assert!(wrote, "the program wrote nothing\n{}", recorded.stderr);
    expect_unharmed(&recorded);
    let replayed = timed::run(&mut timed::replay(&trace), LIMIT).expect_code(timed::TOOL_FAILED);
    replayed.expect_clean_report();
}

#[test]
fn low_limits_of_the_program_do_not_reach_the_recording() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = timed::guest(folder.path(), "parade");
    let trace = folder.path().join("trace");
    let arguments = [PARADE, "1000", "low-limits"];
    let recorded = timed::run(timed::record(&trace, &program).args(arguments), LIMIT).expect_code(0);
    assert!(recorded.text().contains("done, "), "the program did not finish\n{}", recorded.stderr);
    for _ in 0..2 {
        let replayed = timed::run(&mut timed::replay(&trace), LIMIT).expect_code(0);
        assert_eq!(replayed.text(), recorded.text(), "wrong replay\n{}", replayed.stderr);
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = timed::guest(folder.path(), "ledger");
    for trace in ["/proc/no-trace-here", "/dev/null/trace"] {
        let refused = timed::run(timed::record(Path::new(trace), &program).args(["1", "1"]), LIMIT);
        refused.expect_clean_report();
        assert_eq!(refused.code, timed::TOOL_FAILED, "{}", refused.stderr);
        assert!(refused.stdout.is_empty(), "the program ran although nothing could be recorded");
    }
}
