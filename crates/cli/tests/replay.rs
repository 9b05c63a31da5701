//! `relive replay` from outside: the same result, the same end, and every way to go another way.

#[path = "launching/desk.rs"]
mod desk;

use desk::{Desk, Run};
use insta::assert_snapshot;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

/// What it prints depends on the order in which its threads get the lock.
const ORDER: &str = r#"
#include <pthread.h>
#include <stdio.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static unsigned long x;
static void *work(void *name) {
    for (int i = 0; i < 5000; i++) {
        pthread_mutex_lock(&m);
        x = x * 31 + (unsigned long)name;
        pthread_mutex_unlock(&m);
    }
    return 0;
}
int main(void) {
    pthread_t t[4];
    for (long i = 0; i < 4; i++) pthread_create(t + i, 0, work, (void *)(i + 1));
    for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
    printf("%lu\n", x);
    return 3;
}
"#;

/// One thread beside main, which does something else in its middle where the file `switch` exists.
const SWITCH: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static volatile int forever = 1;
static void step(void) { pthread_mutex_lock(&m); pthread_mutex_unlock(&m); }
static void *idle(void *unused) { return unused; }
static void other_way(int way) {
    pthread_t t; usleep(100000); /* by then the first thread waits */
    if (way == 1) step();
    if (way == 2) while (forever) { }
    if (way == 3) pthread_create(&t, 0, idle, 0);
    if (way == 4) sleep(1000);
    if (way == 5) exit(9);
    if (way == 6) { usleep(300000); abort(); }
    if (way == 7) pthread_mutex_lock(&m);
}
static void *work(void *way) {
    for (int i = 0; i < 10; i++) step();
    int there = access("switch", F_OK) == 0;
    if (there && *(char *)way == '8') return 0;
    if (there) other_way(atoi(way));
    for (int i = 0; i < 10; i++) step();
    return 0;
}
int main(int count, char **words) {
    pthread_t t;
    pthread_create(&t, 0, work, words[count - 1]);
    pthread_join(t, 0);
    puts("done");
    return 0;
}
"#;

/// Its threads share a lock until one of them ends the process in the way asked for.
const ENDS: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int n;
static void end(int way) {
    if (way == 1) *(volatile int *)0 = 1;
    if (way == 2) abort();
    if (way == 3) kill(getpid(), SIGKILL);
    if (way == 4) _exit(5);
    if (way == 5) exit(6);
    if (way == 6) { dprintf(1, "stuck\n"); pthread_mutex_lock(&m); }
}
static void *work(void *way) {
    for (int i = 0; i < 1000; i++) {
        pthread_mutex_lock(&m);
        if (++n == 2500) end(atoi(way));
        pthread_mutex_unlock(&m);
    }
    return 0;
}
int main(int count, char **words) {
    pthread_t t[4];
    for (int i = 0; i < 4; i++) pthread_create(t + i, 0, work, words[count - 1]);
    for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
    return 0;
}
"#;

#[test]
fn a_replay_has_the_recordings_output_and_exit_status_as_often_as_wanted() {
    let desk = Desk::new();
    desk.build("order", ORDER);
    let recorded = desk.relive(["record", "./order"]);
    assert_eq!(recorded.status, Some(3));
    assert!(!desk.latest().join("derived.order").exists());
    for _ in 0..3 {
        let replayed = desk.relive(["replay"]);
        assert_eq!(replayed, Run { status: Some(3), stdout: recorded.stdout.clone(), stderr: String::new() });
        assert!(desk.latest().join("derived.order").is_file());
    }
    let left: Vec<_> = fs::read_dir(desk.latest()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "{left:?}");
    let repeated = desk.relive(["replay", "order-1", "--repeat", "4"]);
    assert_eq!((repeated.status, repeated.stdout), (Some(3), recorded.stdout));
    assert_snapshot!(repeated.stderr, @"relive: 4 replays, same output and exit status");
}

#[test]
fn a_damaged_learnt_order_is_learnt_again() {
    let desk = Desk::new();
    desk.build("order", ORDER);
    let recorded = desk.relive(["record", "./order"]);
    desk.relive(["replay"]);
    let path = desk.latest().join("derived.order");
    let good = fs::read(&path).unwrap();
    fs::write(&path, &good[..good.len() / 2]).unwrap();
    let replayed = desk.relive(["replay"]);
    assert_eq!((replayed.status, replayed.stdout), (Some(3), recorded.stdout));
    assert_ne!(fs::read(&path).unwrap().len(), good.len() / 2);
}

#[test]
fn a_process_ends_as_it_did() {
    let desk = Desk::new();
    desk.build("ends", ENDS);
    let mut seen = String::new();
    for (way, status) in [("1", 139), ("2", 134), ("3", 137), ("4", 5), ("5", 6)] {
        assert_eq!(desk.relive(["record", "-q", "./ends", way]).status, Some(status));
        for _ in 0..2 {
            let replayed = desk.relive(["replay"]);
            writeln!(seen, "{} {}", replayed.status.unwrap(), replayed.stderr).unwrap();
        }
    }
    assert_snapshot!(seen, @r"
    139 relive: killed by SIGSEGV, as recorded
    139 relive: killed by SIGSEGV, as recorded
    134 relive: killed by SIGABRT, as recorded
    134 relive: killed by SIGABRT, as recorded
    137 relive: killed by SIGKILL, as recorded
    137 relive: killed by SIGKILL, as recorded
    5 
    5 
    6 
    6
    ");
}

#[test]
fn a_replay_stops_where_a_deadlocked_process_was_killed() {
    let desk = Desk::new();
    desk.build("ends", ENDS);
    let mut child = desk.start(["record", "-q", "./ends", "6"], Stdio::null());
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    stdout.read_line(&mut text).unwrap();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    stdout.read_to_string(&mut text).unwrap();
    assert_eq!(desk.finish(child).status, Some(130));
    let replayed = desk.relive(["replay"]);
    assert_eq!((replayed.status, replayed.stdout.as_str()), (Some(130), "stuck\n"));
    assert_snapshot!(replayed.stderr, @"relive: the recording ends here: killed by SIGINT");
}

#[test]
fn a_debugger_that_is_not_there_is_told() {
    let desk = Desk::new();
    desk.relive(["record", "-q", "true"]);
    let run = desk.shell("PATH=/nowhere; export PATH; exec \"$RELIVE\" replay --gdb");
    assert_eq!(run.status, Some(125));
    assert_snapshot!(run.stderr, @"relive: start gdb: No such file or directory (os error 2); install it, or have it in $PATH");
}

#[test]
fn what_cannot_be_shown_is_told() {
    let desk = Desk::new();
    desk.relive(["record", "-q", "--environment", "seq", "100000"]);
    let full = desk.shell("exec \"$RELIVE\" replay > /dev/full");
    assert_eq!(full.status, Some(125));
    assert_snapshot!(full.stderr, @"relive: replay DESK/traces/seq-1: show what the program wrote: No space left on device (os error 28); check where the output leads");
    let closed = desk.shell("exec \"$RELIVE\" replay >&-");
    assert_eq!((closed.status, closed.stderr.as_str()), (Some(0), ""));
}

#[test]
fn every_other_way_has_its_own_report() {
    let desk = Desk::new();
    desk.build("switch-program", SWITCH);
    let mut seen = String::new();
    for way in 1..=8 {
        let _ = fs::remove_file(desk.path("switch"));
        let recorded = desk.relive(["record", "-q", "./switch-program", &way.to_string()]);
        assert_eq!((recorded.status, recorded.stdout.as_str()), (Some(0), "done\n"));
        fs::write(desk.path("switch"), "").unwrap();
        let replayed = desk.relive(["replay"]);
        writeln!(seen, "{way}: {}\n{}", replayed.status.unwrap(), replayed.stderr).unwrap();
    }
    assert_snapshot!(seen, @r"
    1: 125
    relive: replay DESK/traces/switch-program-1 diverged: thread 0.0, lock after the last of its 40 recorded events, at DESK/switch-program.c:8 (step)
    relive:   thread 0: 1 of 7 events, is blocked, at DESK/switch-program.c:31 (main)
    relive: likely cause: an order that this level does not record (inline atomics, a hand-made lock, raw futex calls), or a data race; `relive record --level atomics` orders atomics, `--learn` data races as well; or an input (time, files, sockets, signals): record it with --environment
    2: 125
    relive: replay DESK/traces/switch-program-2 diverged: thread 0.0, after event 20 of 40: spins outside any recorded operation, at DESK/switch-program.c:13 (other_way)
    relive:   thread 0: 1 of 7 events, is blocked, at DESK/switch-program.c:31 (main)
    relive: likely cause: thread 0.0 spins at DESK/switch-program.c:13 (other_way): this order was not recorded at this level; `relive record --level atomics` orders atomics, `--learn` data races as well; or an input (time, files, sockets, signals): record it with --environment
    3: 125
    relive: replay DESK/traces/switch-program-3 diverged: thread 0.0, event 21 of 40: create of a thread that the recording does not have, at DESK/switch-program.c:14 (other_way)
    relive:   thread 0: 1 of 7 events, is blocked, at DESK/switch-program.c:31 (main)
    relive: likely cause: an order that this level does not record (inline atomics, a hand-made lock, raw futex calls), or a data race; `relive record --level atomics` orders atomics, `--learn` data races as well; or an input (time, files, sockets, signals): record it with --environment
    4: 125
    relive: replay DESK/traces/switch-program-4 diverged: thread 0.0, after event 20 of 40: blocks outside any recorded operation, at DESK/switch-program.c:15 (other_way)
    relive:   thread 0: 1 of 7 events, is blocked, at DESK/switch-program.c:31 (main)
    relive: likely cause: thread 0.0 blocks at DESK/switch-program.c:15 (other_way): this order was not recorded at this level; `relive record --level atomics` orders atomics, `--learn` data races as well; or an input (time, files, sockets, signals): record it with --environment
    5: 125
    relive: replay DESK/traces/switch-program-5 diverged: thread 0.0, after event 23 of 40: it waits with libc-leave for event 7 of thread 0, and nobody can go on, at DESK/switch-program.c:16 (other_way)
    relive:   thread 0: 1 of 7 events, is blocked, at DESK/switch-program.c:31 (main)
    relive: likely cause: an order that this level does not record (inline atomics, a hand-made lock, raw futex calls), or a data race; `relive record --level atomics` orders atomics, `--learn` data races as well; or an input (time, files, sockets, signals): record it with --environment
    6: 125
    relive: replay DESK/traces/switch-program-6 diverged: it was killed by SIGABRT, the recording exited with 0
    relive:   thread 0: 1 of 7 events, is blocked
    relive:   thread 0.0: 20 of 40 events, runs
    relive: likely cause: an order that this level does not record (inline atomics, a hand-made lock, raw futex calls), or a data race; `relive record --level atomics` orders atomics, `--learn` data races as well; or an input (time, files, sockets, signals): record it with --environment
    7: 125
    relive: replay DESK/traces/switch-program-7 diverged: thread 0.0, event 22 of 40: lock, but the object 0x5555555580a0 is not free, at DESK/switch-program.c:8 (step)
    relive:   thread 0: 1 of 7 events, is blocked, at DESK/switch-program.c:31 (main)
    relive: likely cause: somebody holds it who was not recorded, or a data race
    8: 125
    relive: replay DESK/traces/switch-program-8 diverged: thread 0.0, it ended after 20 of 40 recorded events, at DESK/switch-program.c:31 (main)
    relive:   thread 0: 1 of 7 events, runs, at DESK/switch-program.c:31 (main)
    relive: likely cause: an order that this level does not record (inline atomics, a hand-made lock, raw futex calls), or a data race; `relive record --level atomics` orders atomics, `--learn` data races as well; or an input (time, files, sockets, signals): record it with --environment
    ");
}

#[test]
fn functions_are_named_without_their_arguments() {
    let source = r#"
#include <pthread.h>
#include <string>
#include <unistd.h>
#include <vector>
template <class T> __attribute__((noinline)) void spin(const std::vector<T> &, int from) { for (volatile int i = from;; i++); }
int main() {
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&m);
    if (access("switch", F_OK) == 0) spin(std::vector<std::string>(), 1);
    pthread_mutex_unlock(&m);
}"#;
    let desk = Desk::new();
    fs::write(desk.path("spins.cc"), source).unwrap();
    assert_eq!(desk.shell("g++ -g -O1 -pthread -o spins spins.cc && \"$RELIVE\" record -q ./spins").status, Some(0));
    fs::write(desk.path("switch"), "").unwrap();
    let replayed = desk.relive(["replay"]);
    assert_eq!(replayed.status, Some(125));
    assert!(replayed.stderr.contains(" at DESK/spins.cc:6 (spin)\n"), "{}", replayed.stderr);
}

#[test]
fn a_learnt_order_that_leads_elsewhere_is_tried_by_timestamps_before_the_report() {
    let desk = Desk::new();
    desk.build("switch-program", SWITCH);
    desk.relive(["record", "-q", "./switch-program", "3"]);
    assert_eq!(desk.relive(["replay"]).status, Some(0));
    fs::write(desk.path("switch"), "").unwrap();
    let replayed = desk.relive(["replay"]);
    assert_eq!(replayed.status, Some(125));
    let lines: Vec<_> = replayed.stderr.lines().filter(|line| !line.starts_with("relive:   ")).take(3).collect();
    assert_snapshot!(lines.join("\n"), @r"
    relive: the replay by the learnt order diverged: thread 0.0, event 21 of 40: create of a thread that the recording does not have, at DESK/switch-program.c:14 (other_way)
    relive: trying again by timestamps
    relive: replay DESK/traces/switch-program-1 diverged: thread 0.0, event 21 of 40: create of a thread that the recording does not have, at DESK/switch-program.c:14 (other_way)
    ");
}

/// How threads wait of whose time nothing is told, and take steps.
const WAITS: &str = r"
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
static void wait_long(void) {
    sigset_t none;
    sigemptyset(&none);
    sigtimedwait(&none, 0, &(struct timespec){ 1, 0 });
}
static pthread_mutex_t locks[2] = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER };
static void step(int which, int times) {
    for (int i = 0; i < times; i++) { pthread_mutex_lock(&locks[which]); pthread_mutex_unlock(&locks[which]); }
}
";

/// What the second thread does depends on a plain variable that the first one has set long before. By timestamps that is
/// still so, but no lock says it.
const LATE: &str = r#"
static volatile int is_set;
static void *first(void *argument) {
    for (volatile long i = 0; i < 100000000; i++) {}
    is_set = 1;
    step(0, 10);
    return argument;
}
static void *second(void *argument) {
    wait_long();
    step(1, 100);
    write(1, "then ", 5);
    step(1, is_set ? 5 : 7);
    return argument;
}
int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], 0, first, 0);
    pthread_create(&threads[1], 0, second, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    write(1, is_set ? "set\n" : "not\n", 4);
    return 0;
}
"#;

#[test]
fn a_learnt_order_that_led_elsewhere_is_not_tried_again() {
    let desk = Desk::new();
    desk.build("late", &(WAITS.to_owned() + LATE));
    desk.relive(["record", "-q", "--environment", "-o", "seen", "./late"]);
    let replays: Vec<_> = (0..3).map(|_| desk.relive(["replay", "seen"])).collect();
    assert!(replays.iter().all(|replay| replay.status == Some(0) && replay.stdout == "then set\n"), "{replays:#?}");
    assert_eq!([0, 2].map(|number: usize| &*replays[number].stderr), ["", ""]);
    assert!(replays[1].stderr.ends_with("\nrelive: trying again by timestamps"), "{}", replays[1].stderr);
    assert!(desk.path("seen/derived.refuted").exists() && !desk.path("seen/derived.order").exists());
}

/// The same, but that the second thread waits by itself, for a third one that waited, and needs nobody for its own lock.
const EARLY: &str = r#"
static volatile int is_set, may_go;
static void *sets(void *argument) {
    for (volatile long i = 0; i < 100000000; i++) {}
    is_set = 1;
    step(0, 10);
    return argument;
}
static void *looks(void *argument) { while (!may_go) {} step(1, 100); step(1, is_set ? 5 : 7); return argument; }
static void *sleeps(void *argument) { wait_long(); may_go = 1; return argument; }
int main(void) {
    void *(*work[])(void *) = { sleeps, looks, sets };
    pthread_t threads[3];
    write(1, "then ", 5);
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, work[i], 0);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    write(1, is_set ? "set\n" : "not\n", 4);
    return 0;
}
"#;

#[test]
fn a_first_replay_that_goes_ahead_and_leads_elsewhere_is_tried_by_timestamps() {
    let desk = Desk::new();
    desk.build("early", &(WAITS.to_owned() + EARLY));
    desk.relive(["record", "-q", "--environment", "-o", "seen", "./early"]);
    let replays: Vec<_> = (0..3).map(|_| desk.relive(["replay", "seen"])).collect();
    assert!(replays.iter().all(|replay| replay.status == Some(0) && replay.stdout == "then set\n"), "{replays:#?}");
    // What was learnt by timestamps does not hold, either: nothing of what was recorded orders the look.
    for (replay, how) in replays.iter().zip(["in which threads wait for little", "by the learnt order"]) {
        let how = format!("relive: the replay {how} diverged: thread 0.1, ");
        assert!(replay.stderr.starts_with(&how), "{}", replay.stderr);
        assert!(replay.stderr.ends_with("\nrelive: trying again by timestamps"), "{}", replay.stderr);
    }
    assert_eq!(replays[2].stderr, "");
}

#[test]
fn a_rebuilt_program_is_replayed_only_on_request() {
    let desk = Desk::new();
    desk.build("order", ORDER);
    let recorded = desk.relive(["record", "-q", "./order"]);
    desk.build("order", &ORDER.replace("return 3;", "puts(\"added\"); return 3;"));
    let refused = desk.relive(["replay"]);
    assert_eq!((refused.status, refused.stdout.as_str()), (Some(125), ""));
    assert_snapshot!(refused.stderr, @"relive: replay DESK/traces/order-1: DESK/order was rebuilt or replaced since; restore it, or try --allow-rebuilt");
    let printing = ORDER
        .replace("return 3;", "fprintf(stderr, \"x\\n\"); return 3;")
        .replace("x = x * 31", "if (i % 1000 == 0) fprintf(stderr, \"%d\\n\", i); x = x * 31");
    desk.build("order", &printing);
    for _ in 0..2 {
        let allowed = desk.relive(["replay", "--allow-rebuilt"]);
        assert_eq!((allowed.status, &allowed.stdout), (Some(3), &recorded.stdout), "{}", allowed.stderr);
        assert_eq!(allowed.stderr.lines().count(), 4 * 5 + 1, "{}", allowed.stderr);
    }
    fs::remove_file(desk.path("order")).unwrap();
    assert_snapshot!(desk.relive(["replay", "--allow-rebuilt"]).stderr, @"relive: replay DESK/traces/order-1: DESK/order is not there any more; restore it");
}

#[test]
fn replays_that_disagree_are_told() {
    let desk = Desk::new();
    desk.build(
        "clock",
        "#include <stdio.h>\n#include <unistd.h>\nint main(void) { printf(\"%d\\n\", getpid()); return 0; }",
    );
    desk.relive(["record", "-q", "./clock"]);
    let repeated = desk.relive(["replay", "--repeat", "2"]);
    assert_eq!(repeated.status, Some(125));
    assert!(repeated.stderr.starts_with("relive: replay 2 of 2 differs from the first"), "{}", repeated.stderr);
}

#[test]
fn what_is_no_trace_is_refused_in_one_line() {
    let desk = Desk::new();
    fs::create_dir(desk.path("empty")).unwrap();
    let mut seen = String::new();
    for arguments in [vec!["replay"], vec!["replay", "nothing"], vec!["replay", "./empty"]] {
        let run = desk.relive(&arguments);
        writeln!(seen, "{} {}", run.status.unwrap(), run.stderr).unwrap();
    }
    assert_snapshot!(seen, @r"
    125 relive: open the latest trace: there is none in DESK/traces; make one with `relive record`
    125 relive: open trace nothing: no such trace; `relive ls` lists them
    125 relive: read DESK/empty: not a relive trace; name a folder that `relive record` made
    ");
}

#[test]
fn gdb_stops_in_any_thread_and_does_not_change_the_execution() {
    let desk = Desk::new();
    desk.build("order", ORDER);
    let recorded = desk.relive(["record", "-q", "./order"]);
    let mut arguments = vec!["replay", "--gdb", "--gdb-batch"];
    for command in ["break work", "run", "next", "print x", "delete", "continue"] {
        arguments.extend(["--gdb-command", command]);
    }
    for _ in 0..2 {
        let debugged = desk.relive(&arguments);
        assert_eq!(debugged.status, Some(0), "{}", debugged.stderr);
        assert!(debugged.stdout.contains("hit Breakpoint 1, work (name="), "{}", debugged.stdout);
        assert!(debugged.stdout.contains("$1 = "), "{}", debugged.stdout);
        assert!(debugged.stdout.contains(recorded.stdout.trim_end()), "{}", debugged.stdout);
        assert!(debugged.stdout.contains("exited with code 03"), "{}", debugged.stdout);
        desk.relive(["replay"]);
    }
}

#[test]
fn gdb_stops_where_the_recording_of_a_killed_process_ends() {
    let desk = Desk::new();
    desk.build("ends", ENDS);
    let mut child = desk.start(["record", "-q", "./ends", "6"], Stdio::null());
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(desk.finish(child).status, Some(130));
    let arguments = ["replay", "--gdb", "--gdb-batch", "--gdb-command", "run", "--gdb-command", "print n"];
    let debugged = desk.relive(arguments);
    assert!(debugged.stdout.contains("$1 = 2500"), "{}\n{}", debugged.stdout, debugged.stderr);
    assert!(debugged.stderr.contains("relive: the recording ends here: killed by SIGINT"), "{}", debugged.stderr);
}

#[test]
fn an_environment_recorded_with_less_order_is_refused_and_can_be_read() {
    let desk = Desk::new();
    let old = concat!(env!("CARGO_MANIFEST_DIR"), "/../trace/tests/golden/v2");
    for command in ["replay", "races"] {
        let run = desk.relive([command, old]);
        assert_eq!((run.status, run.stdout.as_str()), (Some(125), ""), "{command}");
        assert!(run.stderr.contains("(trace format 2, replayed since 3); replay it with"), "{}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    }
    assert!(desk.relive(["stats", old]).stdout.contains("exited 5"));
    assert!(desk.relive(["dump", old]).stdout.contains("name=openat"));
}

#[test]
fn a_replay_that_nobody_reads_ends_like_other_tools() {
    for environment in ["", "--environment"] {
        let desk = Desk::new();
        let run = desk.shell(&format!(
            "$RELIVE record -q {environment} seq 200000 | tail -1; {{ $RELIVE replay; echo $? >&2; }} | head -1"
        ));
        assert_eq!(run, Run { status: Some(0), stdout: "200000\n1\n".to_owned(), stderr: "141".to_owned() });
    }
}
