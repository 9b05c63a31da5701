//! Whoever wants a replay to end ends it, whatever the program thinks of the signal; and gdb stops one that can't go on.
//!
//! Apart from other replays because it takes a program that has to be stopped.

#[path = "launching/desk.rs"]
mod desk;

use desk::Desk;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Takes no notice of two signals, and goes on until its input ends.
const DEAF: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static void heard(int number) { (void)number; }
int main(void) {
    struct sigaction action = { .sa_handler = heard, .sa_flags = SA_RESTART };
    char letter;
    sigaction(SIGTERM, &action, 0);
    sigaction(SIGINT, &action, 0);
    dprintf(1, "waits\n");
    while (read(0, &letter, 1) > 0) {}
    dprintf(1, "ends\n");
    return 0;
}
"#;

/// A plain replay reads its input again, and waits for it here.
fn check(signal: &str, status: i32) {
    let desk = Desk::new();
    desk.build("deaf", DEAF);
    assert_eq!(desk.relive(["record", "-q", "./deaf"]).stdout, "waits\nends\n");
    let mut child = desk.start(["replay"], Stdio::piped());
    let input = child.stdin.take();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "waits\n");
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    let ended = desk.finish(child);
    assert_eq!(ended.status, Some(status), "{}", ended.stderr);
    drop(input);
}

#[test]
fn a_replay_ends_by_a_signal_that_its_program_handles() {
    check("-TERM", 143);
    check("-INT", 130);
}

/// A child that looks for a file, of which a recording of synchronisation alone knows nothing.
const LOOKS: &str = r#"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int stage;
int main(void) {
    int status;
    if (fork() == 0) {
        stage = 7;
        for (int more = access("flag", F_OK) == 0 ? 1000 : 10; more > 0; more--) {
            pthread_mutex_lock(&mutex);
            pthread_mutex_unlock(&mutex);
        }
        _exit(3);
    }
    wait(&status);
    return WEXITSTATUS(status);
}
"#;

#[test]
fn gdb_stops_where_a_replay_stands_still() {
    let desk = Desk::new();
    desk.build("looks", LOOKS);
    assert_eq!(desk.relive(["record", "-q", "./looks"]).status, Some(3));
    desk.build("flag", "int main(void) { return 0; }");
    for (first, shown) in [("set confirm off", "$1 = 0"), ("set follow-fork-mode child", "$1 = 7")] {
        let mut arguments = vec!["replay", "--gdb", "--gdb-batch"];
        for command in [first, "run", "print stage"] {
            arguments.extend(["--gdb-command", command]);
        }
        let debugged = desk.relive(&arguments);
        assert!(debugged.stderr.contains("diverged: thread 0, after event 1 of 4: blocks"), "{}", debugged.stderr);
        assert!(debugged.stdout.contains("received signal SIGINT"), "{}", debugged.stdout);
        assert!(debugged.stdout.contains(shown), "{}", debugged.stdout);
    }
}

/// A child that does nothing behind its last event but to end; or to crash.
const CRASHES: &str = r"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
static void cleanup(void *nowhere) { if (CRASHES) *(volatile int *)nowhere = 1; _exit(0); }
int main(void) {
    int status;
    if (fork() == 0) {
        pthread_cleanup_push(cleanup, 0);
        pthread_cancel(pthread_self());
        pthread_testcancel();
        pthread_cleanup_pop(0);
    }
    wait(&status);
    return status != 0;
}
";

#[test]
fn a_child_that_crashes_where_the_recorded_one_ended_is_a_divergence() {
    let desk = Desk::new();
    desk.build("child", &format!("#define CRASHES 0\n{CRASHES}"));
    assert_eq!(desk.relive(["record", "-q", "--environment", "./child"]).status, Some(0));
    assert_eq!(desk.relive(["replay"]).status, Some(0));
    desk.build("child", &format!("#define CRASHES 1\n{CRASHES}"));
    let replayed = desk.relive(["replay", "--allow-rebuilt"]);
    assert_eq!(replayed.status, Some(125), "{}", replayed.stderr);
    assert!(replayed.stderr.contains("it was killed by SIGSEGV, which it was not then"), "{}", replayed.stderr);
}
