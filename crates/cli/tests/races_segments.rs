//! `relive races --segments`: the table of what a detector that stores segments would
//! store and compare, against what a program's text says.
//!
//! Apart from `races_command.rs` because nothing here races.

#[path = "launching/desk.rs"]
mod desk;

use desk::Desk;
use serde_json::Value;

/// How often each thread takes its lock.
const ROUNDS: u64 = 10;

/// Two threads with a lock each: nothing orders one with the other.
const APART: &str = "#include <pthread.h>
static pthread_mutex_t locks[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static int counts[2][64];
static void *work(void *which) {
    for (int n = 0; n < ROUNDS; n++) {
        pthread_mutex_lock(&locks[(long)which]);
        counts[(long)which][0]++;
        pthread_mutex_unlock(&locks[(long)which]);
    }
    return NULL;
}
int main(void) {
    pthread_t threads[2];
    for (long n = 0; n < 2; n++) pthread_create(&threads[n], NULL, work, (void *)n);
    for (int n = 0; n < 2; n++) pthread_join(threads[n], NULL);
    return 0;
}
";

/// Segments of both threads and of the first one, in the order of its text: where it begins, whether each of the two
/// others is unordered with it.
fn expected() -> (u64, u64) {
    // A release ends each; the last one ends with the thread.
    let of_worker = ROUNDS + 1;
    // Before both creations, between them, before the first join, before the second one, to the end.
    let of_main = [[false, false], [true, false], [true, true], [false, true], [false, false]];
    let with_main = of_main.iter().flatten().filter(|&&unordered| unordered).count() as u64 * of_worker;
    (2 * of_worker + of_main.len() as u64, of_worker * of_worker + with_main)
}

#[test]
fn segments_are_those_of_the_programs_text() {
    let desk = Desk::new();
    desk.build("apart", &APART.replace("ROUNDS", &ROUNDS.to_string()));
    desk.relive(["record", "-q", "--environment", "--", "./apart"]);
    let json = desk.relive(["races", "-q", "--segments", "--format", "json"]);
    assert_eq!(json.status, Some(0), "{json:?}");
    let report: Value = serde_json::from_str(&json.stdout).expect("JSON");
    let number = |way: &str, name: &str| report["segments"][way][name].as_u64().expect("a number");
    let (created, compared) = expected();
    for way in ["exact", "snooped"] {
        assert_eq!((number(way, "created"), number(way, "compared")), (created, compared), "{way}");
    }
    for what in ["stored_max", "bytes_max"] {
        assert!(number("exact", what) <= number("snooped", what), "{what}: {report}");
        assert!(number("exact", what) > 0, "{what}: {report}");
    }
    // All of one thread's segments wait for the other's last one, or the other way round.
    assert!(number("exact", "stored_max") > ROUNDS && number("snooped", "stored_max") <= created, "{report}");
    let text = desk.relive(["races", "-q", "--segments"]).stdout;
    assert!(text.starts_with("no data races\n\nSegments, as RecPlay counts them:\n"), "{text}");
    assert_eq!(text.lines().count(), 6, "{text}");
}

#[test]
fn nobody_is_told_of_segments_who_did_not_ask() {
    let desk = Desk::new();
    desk.build("apart", &APART.replace("ROUNDS", "1"));
    desk.relive(["record", "-q", "--environment", "--", "./apart"]);
    assert_eq!(desk.relive(["races", "-q"]).stdout, "no data races\n");
    let json: Value = serde_json::from_str(&desk.relive(["races", "-q", "--format", "json"]).stdout).expect("JSON");
    assert_eq!(json["segments"], Value::Null);
}
