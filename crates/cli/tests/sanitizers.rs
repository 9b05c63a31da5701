//! Programs that a compiler's sanitizers look after, as they are built for CI.
//!
//! Apart from `record.rs` because what is tested is how two libraries that both come first get on.

#[path = "launching/desk.rs"]
mod desk;

use desk::Desk;

const COUNTS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int count;
static void *add(void *none) {
    for (int i = 0; i < 1000; i++) {
        pthread_mutex_lock(&mutex);
        count++;
        pthread_mutex_unlock(&mutex);
    }
    return none;
}
int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(threads + i, 0, add, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    char *room = malloc(10);
    room[getpid() > 0] = 1;
    dprintf(1, "%d %d\n", count, room[1]);
    free(room);
    return 0;
}
"#;
const SAID: &str = "2000 1\n";

#[test]
fn a_program_with_address_sanitizer_is_recorded_and_replayed() {
    let desk = Desk::new();
    desk.build_with("counts", COUNTS, &["-fsanitize=address,undefined"]);
    let plain = desk.relive(["record", "-q", "./counts"]);
    assert_eq!((plain.status, &*plain.stdout, &*plain.stderr), (Some(0), SAID, ""));
    let without_leaks = desk.shell("ASAN_OPTIONS=detect_leaks=0 \"$RELIVE\" record -q --environment ./counts");
    assert_eq!((without_leaks.status, &*without_leaks.stdout, &*without_leaks.stderr), (Some(0), SAID, ""));
    for trace in ["counts-1", "counts-2"] {
        for _ in 0..3 {
            let replayed = desk.relive(["replay", trace]);
            assert_eq!((replayed.status, &*replayed.stdout), (Some(0), SAID), "{trace}\n{}", replayed.stderr);
        }
    }
}

#[test]
fn what_address_sanitizer_finds_ends_the_program_as_without_us() {
    let desk = Desk::new();
    desk.build_with("counts", &COUNTS.replace("getpid() > 0", "getpid() > 0 ? 10 : 0"), &["-fsanitize=address"]);
    for options in [&["record", "-q", "./counts"][..], &["record", "-q", "--environment", "./counts"]] {
        let recorded = desk.relive(options);
        assert!(recorded.stderr.contains("heap-buffer-overflow"), "{}", recorded.stderr);
        assert_eq!(recorded.status, Some(1), "{}", recorded.stderr);
    }
}

/// It stops all threads from a process that shares their memory, by `ptrace`.
#[test]
fn a_search_for_leaks_ends_the_recording_of_the_environment_and_is_made() {
    let desk = Desk::new();
    desk.build_with("counts", COUNTS, &["-fsanitize=address"]);
    desk.build_with("leaks", &COUNTS.replace("free(room);", "room = 0;"), &["-fsanitize=address"]);
    for (program, status) in [("./counts", 0), ("./leaks", 1)] {
        let recorded = desk.relive(["record", "--environment", program]);
        assert_eq!((recorded.status, &*recorded.stdout), (Some(status), SAID), "{}", recorded.stderr);
        assert!(recorded.stderr.contains("uses clone"), "{}", recorded.stderr);
        assert_eq!(recorded.stderr.contains("detected memory leaks"), status == 1, "{}", recorded.stderr);
    }
}

#[test]
fn a_program_with_thread_sanitizer_is_refused() {
    let desk = Desk::new();
    desk.build_with("counts", COUNTS, &["-fsanitize=thread"]);
    let line = "relive: record ./counts: it is built with ThreadSanitizer, which has no room for what records it; build it \
                without, and `relive races` finds its races";
    for options in [&["record", "./counts"][..], &["record", "--environment", "./counts"]] {
        let refused = desk.relive(options);
        assert_eq!((refused.status, &*refused.stdout, &*refused.stderr), (Some(125), "", line));
    }
}
