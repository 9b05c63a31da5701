//! Replays of which nobody is to see what the program writes: with `--quiet`, and those by which
//! relive finds something out.

#[path = "launching/desk.rs"]
mod desk;

use desk::Desk;

const SPEAKS: &str = r#"
#include <pthread.h>
#include <stdio.h>
static long calls;
static void *speak(void *name) { calls++; fprintf(stderr, "%s\n", (char *)name); return NULL; }
int main(void)
{
    pthread_t thread;
    puts("begins");
    pthread_create(&thread, NULL, speak, "thread");
    speak("main");
    pthread_join(thread, NULL);
    return 3;
}
"#;

/// A desk with a recording of the program.
fn recorded(options: &[&str]) -> Desk {
    let desk = Desk::new();
    desk.build("speaks", SPEAKS);
    let run = desk.relive([&["record", "-q"], options, &["./speaks"]].concat());
    let mut said: Vec<_> = run.stderr.lines().collect();
    said.sort_unstable();
    assert_eq!((run.status, &*run.stdout, &said[..]), (Some(3), "begins\n", &["main", "thread"][..]));
    desk
}

#[test]
fn a_quiet_replay_shows_nothing() {
    for options in [&[][..], &["--environment"]] {
        let desk = recorded(options);
        let loud = desk.relive(["replay"]);
        assert_eq!((loud.status, &*loud.stdout), (Some(3), "begins\n"));
        assert!(loud.stderr.contains("main") && loud.stderr.contains("thread"), "{loud:?}");
        for quiet in [&["--quiet"][..], &["-q", "--repeat", "3"]] {
            let replayed = desk.relive([&["replay"], quiet].concat());
            assert_eq!((replayed.status, &*replayed.stdout, &*replayed.stderr), (Some(3), "", ""), "{options:?}");
        }
    }
}

#[test]
fn a_search_for_races_shows_what_it_found_and_not_what_the_program_writes() {
    let desk = recorded(&["--level", "atomics"]);
    let search = desk.relive(["races", "-q"]);
    assert_eq!((search.status, &*search.stderr), (Some(66), ""));
    assert!(search.stdout.starts_with("1 data race") && !search.stdout.contains("begins"), "{search:?}");
}
