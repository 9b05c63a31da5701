//! `relive record` from outside: exit statuses, messages, what the program sees, what is left.

#[path = "launching/desk.rs"]
mod desk;

use desk::Desk;
use insta::assert_snapshot;
use relive_trace::manifest::{Manifest, Outcome, State};
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

#[test]
fn the_exit_status_is_the_programs() {
    let desk = Desk::new();
    let run = |script| desk.relive(["record", "--", "sh", "-c", script]).status;
    assert_eq!((run("exit 0"), run("exit 7"), run("exit 255")), (Some(0), Some(7), Some(255)));
    assert_eq!((run("kill -9 $$"), run("kill -SEGV $$"), run("kill -TERM $$")), (Some(137), Some(139), Some(143)));
}

#[test]
fn one_line_says_where_the_trace_is_and_traces_are_numbered() {
    let desk = Desk::new();
    let first = desk.relive(["record", "true"]);
    assert_snapshot!(first.stderr, @"relive: recorded to DESK/traces/true-1 (SIZE B)");
    assert_eq!((first.status, first.stdout.as_str()), (Some(0), ""));
    assert_snapshot!(desk.relive(["record", "true"]).stderr, @"relive: recorded to DESK/traces/true-2 (SIZE B)");
    assert_eq!(desk.latest(), fs::canonicalize(desk.path("traces/true-2")).unwrap());
    assert_eq!(desk.relive(["record", "--quiet", "-o", "here", "true"]).stderr, "");
    assert!(desk.path("here/manifest.json").is_file());
}

#[test]
fn what_cannot_be_recorded_is_refused_in_one_line_and_leaves_no_trace() {
    let desk = Desk::new();
    desk.build_with("fixed", "int main(void) { return 0; }", &["-static"]);
    fs::write(desk.path("text"), "hello").unwrap();
    fs::write(desk.path("garbage"), "hello").unwrap();
    fs::set_permissions(desk.path("garbage"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(desk.path("full/of")).unwrap();
    let mut seen = String::new();
    for arguments in [
        vec!["record", "no-such-program"],
        vec!["record", "./no-such-program"],
        vec!["record", "garbage"],
        vec!["record", "./text"],
        vec!["record", "./garbage"],
        vec!["record", "./full"],
        vec!["record", "./fixed"],
        vec!["record", "-o", "full", "true"],
        vec!["record", "-o", "text/trace", "true"],
    ] {
        let run = desk.relive(&arguments);
        writeln!(seen, "{} {}", run.status.unwrap(), run.stderr).unwrap();
    }
    assert_snapshot!(seen, @r"
    127 relive: start no-such-program: no such program in $PATH
    127 relive: start ./no-such-program: no such program
    127 relive: start garbage: no such program in $PATH; of this folder is ./garbage
    126 relive: start ./text: Permission denied (os error 13)
    126 relive: start ./garbage: not an ELF program and without a #! line; if it is a script, name its interpreter: sh FILE
    126 relive: start ./full: not a regular file
    125 relive: record ./fixed: it is statically linked, so its synchronisation can't be seen; link it dynamically
    125 relive: create trace folder full: it exists and is not empty; name a new folder
    125 relive: create trace folder text/trace: Not a directory (os error 20); name another one
    ");
    assert!(!desk.path("traces").exists());
}

#[test]
fn a_folder_that_is_gone_and_a_recording_within_another_are_refused_with_the_remedy() {
    let desk = Desk::new();
    let gone = desk.shell("mkdir gone && cd gone && rmdir ../gone && exec \"$RELIVE\" record -o \"$PWD.trace\" true");
    assert_eq!(gone.status, Some(125));
    assert!(gone.stderr.contains("record in the current folder: "), "{}", gone.stderr);
    assert!(gone.stderr.ends_with("; go to one that is there"), "{}", gone.stderr);
    let own = env!("CARGO_BIN_EXE_relive");
    for options in [&["record", "-q"][..], &["record", "-q", "--environment"]] {
        for inner in [&["record", "-q", "true"][..], &["races", "--live", "--", "true"], &["replay"]] {
            let nested = desk.relive(options.iter().copied().chain(["--", own]).chain(inner.iter().copied()));
            let line = "relive: start a program: relive itself is being recorded or replayed, which can't be nested; \
                        start it outside";
            assert_eq!((nested.status, nested.stderr.as_str()), (Some(125), line), "{options:?} {inner:?}");
        }
    }
}

#[test]
fn a_script_is_recorded_by_its_interpreter() {
    let desk = Desk::new();
    fs::write(desk.path("script"), "#!/bin/sh\necho \"$0|$1\"\nexit 3\n").unwrap();
    fs::set_permissions(desk.path("script"), fs::Permissions::from_mode(0o755)).unwrap();
    let run = desk.relive(["record", "./script", "a b"]);
    assert_eq!((run.status, run.stdout.as_str()), (Some(3), "./script|a b\n"));
    let again = desk.relive(["replay"]);
    assert_eq!((again.status, again.stdout.as_str()), (Some(3), "./script|a b\n"));
}

#[test]
fn the_program_sees_its_streams_and_the_users_signal_mask() {
    let desk = Desk::new();
    let mut child = desk.start(["record", "-q", "sh", "-c", "cat; grep SigBlk /proc/self/status >&2"], Stdio::piped());
    child.stdin.take().unwrap().write_all(b"line\n").unwrap();
    let run = desk.finish(child);
    assert_eq!((run.status, run.stdout.as_str()), (Some(0), "line\n"));
    assert_eq!(run.stderr, "SigBlk:\t0000000000000000");
}

#[test]
fn the_manifest_tells_what_was_recorded() {
    let desk = Desk::new();
    let program = desk.build("prog", "int main(void) { return 4; }");
    desk.relive(["record", "./prog", "an argument"]);
    let manifest = Manifest::read(&desk.latest()).unwrap();
    let words: Vec<_> = manifest.command.iter().map(ToString::to_string).collect();
    assert_eq!(words, ["./prog", "an argument"]);
    assert_eq!(fs::canonicalize(manifest.program.path.as_path()).unwrap(), fs::canonicalize(program).unwrap());
    assert!(manifest.program.build_id.is_some() || manifest.program.checksum.is_some());
    assert!(manifest.libraries.iter().any(|library| library.path.to_string().contains("libc.so")));
    assert!(manifest.environment.iter().any(|(name, _)| name.0 == "RELIVE_TRACE_DIR"));
    assert!(manifest.environment.iter().all(|(name, _)| name.0 != "RELIVE_CONTROL" && name.0 != "LD_PRELOAD"));
    assert_eq!(manifest.folder.as_path(), fs::canonicalize(desk.path(".")).unwrap());
    assert_eq!((manifest.state, manifest.outcome), (State::Complete, Some(Outcome::Exited(4))));
    assert!(manifest.ended_ms >= Some(manifest.started_ms));
    assert!(!manifest.host.kernel.is_empty() && !manifest.host.features.is_empty());
    assert_eq!(manifest.files.len(), 1);
}

#[test]
fn a_signal_to_relive_reaches_the_program_and_the_trace_is_finished() {
    let desk = Desk::new();
    let mut child = desk.start(["record", "sh", "-c", "echo ready; exec sleep 1000"], Stdio::null());
    let mut ready = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut ready).unwrap();
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    stdout.read_to_string(&mut ready).unwrap();
    assert_eq!(desk.finish(child).status, Some(143));
    let manifest = Manifest::read(&desk.latest()).unwrap();
    assert_eq!((manifest.state, manifest.outcome), (State::Complete, Some(Outcome::Killed(15))));
}

#[test]
fn a_trace_folder_that_vanishes_does_not_disturb_the_program() {
    let desk = Desk::new();
    let mut child = desk.start(["record", "-o", "t", "sh", "-c", "echo ready; cat; exit 5"], Stdio::piped());
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    stdout.read_line(&mut text).unwrap();
    // What the recorder makes there meanwhile must go, too.
    while fs::remove_dir_all(desk.path("t")).is_err_and(|error| error.kind() == std::io::ErrorKind::DirectoryNotEmpty) {
    }
    assert!(!desk.path("t").exists());
    child.stdin.take().unwrap().write_all(b"on\n").unwrap();
    stdout.read_to_string(&mut text).unwrap();
    let run = desk.finish(child);
    assert_eq!((run.status, text.as_str()), (Some(5), "ready\non\n"));
    let last = run.stderr.lines().last().unwrap_or_default();
    assert_snapshot!(last, @"relive: write trace DESK/t: No such file or directory (os error 2); the folder was removed or moved; record again");
}

#[test]
fn processes_that_outlive_the_first_are_named() {
    let desk = Desk::new();
    // The child is there, and recorded, before its parent leaves.
    let source = "#include <unistd.h>\n#include <stdio.h>\nint main(void) { int ends[2]; char there = 0; if (pipe(ends)) \
                  return 1; int child = fork(); if (!child) { if (write(ends[1], &there, 1) != 1) return 2; close(1); \
                  close(2); for (;;) pause(); } if (read(ends[0], &there, 1) != 1) return 3; printf(\"%d\\n\", child); \
                  return 0; }";
    desk.build("leaver", source);
    let run = desk.relive(["record", "./leaver"]);
    let manifest = Manifest::read(&desk.latest()).unwrap();
    assert!(Command::new("kill").args(["-KILL", run.stdout.trim()]).status().unwrap().success());
    assert_snapshot!(run.stderr, @"relive: recorded to DESK/traces/leaver-1 (2 processes, SIZE B, 1 still running and recorded up to here)");
    assert_eq!(manifest.state, State::Complete);
    let again = desk.relive(["replay"]);
    assert_eq!(again.status, Some(0), "{}", again.stderr);
}

/// Three threads that do nothing but wait for each other, round after round.
const ROUNDS: usize = 1000;
const BARRIER: &str = "
#include <pthread.h>
static pthread_barrier_t barrier;
static void *work(void *unused)
{
    for (int round = 0; round < ROUNDS; round++)
        pthread_barrier_wait(&barrier);
    return unused;
}
int main(void)
{
    pthread_t threads[3];
    pthread_barrier_init(&barrier, NULL, 3);
    for (int t = 0; t < 3; t++)
        pthread_create(&threads[t], NULL, work, NULL);
    for (int t = 0; t < 3; t++)
        pthread_join(threads[t], NULL);
    return 0;
}
";

/// A thread that the kernel wakes late departs when others have arrived again; a replay must not wait for that.
#[test]
fn who_departs_from_a_barrier_follows_its_round_and_no_later_arrival() {
    let desk = Desk::new();
    desk.build_with("rounds", BARRIER, &[&format!("-DROUNDS={ROUNDS}")]);
    assert_eq!(desk.relive(["record", "-q", "-o", "trace", "./rounds"]).status, Some(0));
    let dump = desk.relive(["dump", "trace"]).stdout;
    let times: Vec<Vec<u64>> = ["0.0", "0.1", "0.2"].iter().map(|thread| timestamps(&dump, thread)).collect();
    for round in 0..ROUNDS {
        let last = times.iter().map(|of_thread| of_thread[2 * round]).max();
        for of_thread in &times {
            assert_eq!(Some(of_thread[2 * round + 1] - 1), last, "round {round}");
        }
    }
}

/// The timestamps of a thread's events, from a dump: each is one above that before, but for what pairs say.
fn timestamps(dump: &str, thread: &str) -> Vec<u64> {
    let lines = || dump.lines().filter_map(|line| line.strip_prefix(thread)?.strip_prefix(' '));
    let begins = lines().find(|line| line.starts_with("thread ")).expect("the thread is told");
    let field = |name: &str| begins.split(' ').find_map(|word| word.strip_prefix(name)?.parse::<u64>().ok());
    let (events, mut clock) = (field("events=").expect("events"), field("start_clock=").expect("a clock"));
    let mut jumps = std::collections::BTreeMap::new();
    for line in lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if let [event, time, "pair", _] = words[..] {
            jumps.insert(event.parse::<u64>().expect("an event"), time.parse::<u64>().expect("a clock"));
        }
    }
    let next = |event| {
        clock = jumps.get(&event).copied().unwrap_or(clock + 1);
        clock
    };
    (0..events).map(next).collect()
}

/// A lock that follows another thread's event says so, unless such locks are frequent; and all others then need not.
#[test]
fn a_lock_tells_whether_it_follows_another_thread() {
    let desk = Desk::new();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guests/lock");
    let source = std::fs::read_to_string(format!("{folder}/whom.c")).unwrap();
    desk.build_with("whom", &source, &["-I", folder]);
    let told = |ahead: &str| {
        assert_eq!(desk.relive(["record", "-q", "-o", "trace", "./whom", ahead]).status, Some(0));
        let dump = desk.relive(["dump", "trace"]).stdout;
        std::fs::remove_dir_all(desk.path("trace")).unwrap();
        let of_first = dump.lines().filter_map(|line| line.strip_prefix("0 "));
        let records = of_first.map(|line| line.split(' ').skip(2).collect::<Vec<_>>().join(" "));
        records.filter(|record| record == "own" || record.starts_with("behind")).collect::<Vec<_>>()
    };
    // The mutex that was handed on is told because of the `own` before it, the one behind that need not be.
    assert_eq!(told("1000"), ["behind gap=256", "own", "behind gap=256"]);
    // Never so many locks without another thread's that it would pay to say so.
    assert_eq!(told("40"), ["behind gap=16"]);
}

#[test]
fn waits_that_this_level_does_not_order_are_told() {
    let desk = Desk::new();
    let source = r"
        #include <linux/futex.h>
        #include <pthread.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        static int word;
        static void *wait_for_it(void *unused) {
            while (!__atomic_load_n(&word, __ATOMIC_ACQUIRE))
                syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, (void *)0, (void *)0, 0);
            return unused;
        }
        int main(void) {
            pthread_t thread;
            pthread_create(&thread, 0, wait_for_it, 0);
            usleep(300000);
            __atomic_store_n(&word, 1, __ATOMIC_RELEASE);
            syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, (void *)0, (void *)0, 0);
            return pthread_join(thread, 0);
        }";
    desk.build("waits", source);
    let told = |options: &[&str]| {
        let run = desk.relive([&["record"], options, &["./waits"]].concat());
        assert_eq!(run.status, Some(0), "{run:?}");
        run.stderr.lines().nth(1).map(str::to_owned)
    };
    let line = told(&[]);
    assert_snapshot!(line.as_deref().unwrap_or_default(), @"relive: its threads waited for each other 1 time by futex calls of their own, which this level does not order: if it doesn't replay, --level atomics or --learn will help");
    assert_eq!(told(&["--environment"]), line);
    assert_eq!((told(&["--quiet"]), told(&["--level", "atomics"])), (None, None));
}
