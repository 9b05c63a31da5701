//! Programs that can't be recorded, started by one that is: named while it is
//! recorded, and not started again by a replay.
//!
//! Apart from `images.rs` because these images are not in the trace at all.

#[path = "trial/timed.rs"]
mod timed;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use timed::{Ended, RELIVE, run};

const LIMIT: Duration = Duration::from_secs(100);
/// Leaves a mark outside, runs what it is told, and ends with 3.
const STATIC: &str = r#"
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **arguments)
{
    FILE *mark = fopen("mark", "a");
    fputs("x", mark);
    fclose(mark);
    if (count > 1) {
        if (fork() == 0)
            execvp(arguments[1], arguments + 1);
        wait(NULL);
    }
    return 3;
}
"#;

/// Makes processes that share its memory, and calls the kernel while they do.
const SHARES: &str = r#"
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static char stacks[4][65536] __attribute__((aligned(16)));
static int calls(void *argument)
{
    for (int i = 0; i < 3000; i++)
        getppid();
    return argument != 0;
}
int main(void)
{
    dprintf(1, "before\n");
    for (int i = 0; i < 4; i++)
        clone(calls, stacks[i + 1], CLONE_VM | CLONE_FILES | SIGCHLD, 0);
    calls(0);
    while (wait(0) > 0)
        getppid();
    dprintf(1, "after\n");
    return 0;
}
"#;

/// A folder with the program `fixed`, and how often that ran.
struct Site(tempfile::TempDir);

impl Site {
    fn build() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("fixed.c"), STATIC).expect("a source");
        let mut compiler = Command::new("cc");
        compiler.args(["-static", "-o", "fixed", "fixed.c"]).current_dir(&folder);
        run(&mut compiler, LIMIT).expect_code(0);
        Self(folder)
    }

    fn relive(&self, arguments: &[&str]) -> Ended {
        run(Command::new(RELIVE).args(arguments).current_dir(&self.0), LIMIT)
    }

    fn record(&self, script: &str) -> Ended {
        self.relive(&["record", "--environment", "-o", "trace", "--", "sh", "-c", script])
    }

    fn marks(&self) -> u64 {
        fs::metadata(self.path("mark")).map_or(0, |mark| mark.len())
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        Path::new(self.0.path()).join(name)
    }
}

/// Replays twice: by timestamps and by what that has learnt.
fn replays_say(site: &Site, recorded: &Ended, said: &str) {
    for _ in 0..2 {
        let replayed = site.relive(&["replay", "trace"]).expect_code(recorded.code);
        assert_eq!(replayed.text(), recorded.text(), "{}", replayed.stderr);
        assert!(replayed.stderr.contains(said), "{}", replayed.stderr);
    }
}

#[test]
fn a_static_program_runs_once() {
    let site = Site::build();
    // By path, in the background, searched for, and in the place of the shell.
    let recorded = site.record(
        "date +%N; ./fixed; echo $?; ./fixed & wait $!; echo $?; PATH=.:$PATH; fixed; echo $?; exec perl -e 'exec fixed'",
    );
    let recorded = recorded.expect_code(3);
    assert_eq!(
        recorded.stderr.matches("fixed is not recorded: it is statically linked").count(),
        4,
        "{}",
        recorded.stderr
    );
    assert_eq!(site.marks(), 4);
    fs::remove_file(site.path("fixed")).expect("it was there");
    replays_say(&site, &recorded, "fixed was not recorded and is not started");
    assert_eq!(site.marks(), 4);
}

/// What the Go compiler writes into its programs, in one that needs no room on its stack.
const GO: &str = r#"
__asm__(".section .note.go.buildid,\"a\",@note\n.long 4, 3, 4\n.asciz \"Go\"\n.byte 0\n.asciz \"id\"\n.byte 0\n.previous");
#include <fcntl.h>
#include <unistd.h>
int main(int count, char **arguments)
{
    (void)arguments;
    if (write(open("mark", O_WRONLY | O_CREAT | O_APPEND, 0666), "x", 1) != 1)
        return 1;
    return count + 4;
}
"#;

#[test]
fn a_go_program_runs_once() {
    let site = Site::build();
    fs::write(site.path("go.c"), GO).expect("a source");
    run(Command::new("cc").args(["-o", "go", "go.c"]).current_dir(&site.0), LIMIT).expect_code(0);
    // Through libc, and by a call of its own.
    let script = "date +%N; ./go; echo $?; perl -e 'syscall(59, my $p = \"./go\", pack(\"QQ\", unpack(\"Q\", pack(\"P\", $p)), 0), 0)'; echo $?";
    let recorded = site.record(script).expect_code(0);
    assert!(recorded.stderr.contains("go is not recorded: it is a Go program"), "{}", recorded.stderr);
    assert!(recorded.text().ends_with("\n5\n5\n"), "{}", recorded.text());
    assert_eq!(site.marks(), 2);
    replays_say(&site, &recorded, "go was not recorded and is not started");
    assert_eq!(site.marks(), 2);
    let refused = site.relive(&["record", "--environment", "-o", "itself", "./go"]).expect_code(125);
    assert!(refused.stderr.starts_with("relive: record ./go: it is a Go program"), "{}", refused.stderr);
    assert_eq!(site.relive(&["record", "-o", "itself", "./go"]).code, 5);
}

#[test]
fn a_static_program_runs_again_for_what_it_started() {
    let site = Site::build();
    let recorded = site.record("./fixed date +%N; echo $?").expect_code(0);
    assert_eq!(site.marks(), 1);
    replays_say(&site, &recorded, "");
    assert_eq!(site.marks(), 3);
}

#[test]
fn a_set_uid_program_that_changes_nobody_is_not_left_out() {
    let site = Site::build();
    fs::copy("/bin/date", site.path("dated")).expect("a program");
    fs::set_permissions(site.path("dated"), Permissions::from_mode(0o6755)).expect("it is ours");
    let recorded = site.record("./dated +%N; echo behind").expect_code(0);
    assert!(!recorded.stderr.contains("not recorded"), "{}", recorded.stderr);
    replays_say(&site, &recorded, "");
}

#[test]
fn valgrind_runs_once() {
    let site = Site::build();
    let recorded = site.record("date +%N; valgrind -q sh -c 'echo x >> seen; exit 5'; echo $?").expect_code(0);
    assert!(recorded.stderr.contains("is not recorded: Valgrind carries it out"), "{}", recorded.stderr);
    assert!(recorded.text().ends_with("\n5\n"), "{}", recorded.text());
    replays_say(&site, &recorded, "was not recorded and is not started");
    assert_eq!(fs::read_to_string(site.path("seen")).expect("it ran"), "x\n");
}

#[test]
fn a_process_that_shares_its_makers_memory_ends_the_recording_and_spoils_nothing() {
    let site = Site::build();
    fs::write(site.path("shares.c"), SHARES).expect("a source");
    run(Command::new("cc").args(["-o", "shares", "shares.c"]).current_dir(&site.0), LIMIT).expect_code(0);
    for _ in 0..5 {
        let recorded = site.relive(&["record", "--environment", "-o", "trace", "./shares"]).expect_code(0);
        assert_eq!(recorded.text(), "before\nafter\n");
        assert!(recorded.stderr.contains("uses clone"), "{}", recorded.stderr);
        let replayed = site.relive(&["replay", "trace"]).expect_code(0);
        assert_eq!(replayed.text(), "before\n", "{}", replayed.stderr);
        fs::remove_dir_all(site.path("trace")).expect("the trace");
    }
}
