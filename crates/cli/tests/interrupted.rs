//! Whoever wants a replay to end ends it, whatever the program thinks of the signal.
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
