//! `relive races` as a command: how it is asked, what it prints beside the races, and
//! how it ends. Likewise `relive run`.
//!
//! Apart from `races.rs`, which holds what is found against a table.

#[path = "launching/desk.rs"]
mod desk;

use desk::{Desk, Run};

/// The program of the README, whose count of calls is not under the lock.
const TALLY: &str = include_str!("../../../guests/demo/tally.c");
/// What it prints here, where the count is not what it raced for: now and then a call is lost.
const TALLIED: &str = "999000 in 2000 calls\n";
/// Nothing of it races.
const ORDERED: &str = include_str!("../../../guests/demo/race_to_print.c");
/// A block of the heap that its threads use, one of them after it was given back, and a status of its own.
const BLOCK: &str = "#include <pthread.h>
#include <stdlib.h>
struct node { long before[3]; volatile int value; };
static struct node *node;
static void *user(void *argument) {
    node->value = 1;
    return argument;
}
static void *other(void *argument) {
    node->value = 2;
    return argument;
}
static struct node *make(void) { return malloc(sizeof *node); }
int main(void) {
    pthread_t threads[2];
    node = make();
    pthread_create(&threads[0], NULL, user, NULL);
    pthread_create(&threads[1], NULL, other, NULL);
    for (int n = 0; n < 2; n++) pthread_join(threads[n], NULL);
    free(node);
    return 3;
}
";

/// In a recording the reader sleeps until the writer is done. No replay sleeps: there it reads first, and leaves out the lock.
const LATE: &str = "#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int ready;
static volatile long sum;
static void *writer(void *argument) {
    for (long n = 0; n < 50000000; n++) sum += n;
    ready = 1;
    return argument;
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, writer, NULL);
    sleep(2);
    if (ready) {
        pthread_mutex_lock(&lock);
        puts(\"ready\");
        pthread_mutex_unlock(&lock);
    }
    pthread_join(thread, NULL);
    return 0;
}
";

/// Two threads with a lock each write to a variable on the stack of the first.
const HELD: &str = "#include <pthread.h>
static pthread_mutex_t locks[2] = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER };
static __attribute__((noinline)) void enter(int which) {
    pthread_mutex_lock(&locks[which]);
}
static void *adder(void *argument) {
    int *result = argument;
    enter(0);
    *result += 7;
    pthread_mutex_unlock(&locks[0]);
    return argument;
}
static void *setter(void *argument) {
    double *share = (double *)((int *)argument + 2);
    int *result = argument;
    enter(1);
    *result = 40;
    *share = 0.5;
    pthread_mutex_unlock(&locks[1]);
    return argument;
}
struct results { int sum, unused; double share; };
int main(void) {
    struct results results = { 0 };
    pthread_t threads[2];
    pthread_create(&threads[0], 0, adder, &results);
    pthread_create(&threads[1], 0, setter, &results);
    for (int n = 0; n < 2; n++) pthread_join(threads[n], 0);
    return results.sum > 100;
}
";

/// Readers count themselves; nothing of it is inlined, and the function that does it has no frame of its own.
const READERS: &str = "#include <pthread.h>
static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
static int readers;
static void add(void) { readers++; }
static void count(void) { add(); }
static void *reader(void *argument) {
    pthread_rwlock_rdlock(&table);
    count();
    pthread_rwlock_unlock(&table);
    return argument;
}
int main(void) {
    pthread_t threads[2];
    for (int n = 0; n < 2; n++) pthread_create(&threads[n], 0, reader, 0);
    for (int n = 0; n < 2; n++) pthread_join(threads[n], 0);
    return 0;
}
";

/// Nodes of the heap, each with a flag that nobody declared atomic and what it guards.
const NODES: &str = "#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
struct node { int data; volatile int ready; };
static struct node *nodes[5];
static struct node *make(void) { return calloc(1, sizeof(struct node)); }
static void publish(struct node *node) {
    node->data = 42;
    node->ready = 1;
}
static void *writer(void *argument) {
    for (int n = 0; n < 5; n++) publish(nodes[n]);
    return argument;
}
static void *reader(void *argument) {
    int sum = 0;
    for (int n = 0; n < 5; n++) {
        while (!nodes[n]->ready) sched_yield();
        sum += nodes[n]->data;
    }
    return sum == 210 ? argument : nodes;
}
int main(void) {
    pthread_t threads[2];
    for (int n = 0; n < 5; n++) nodes[n] = make();
    pthread_create(&threads[0], NULL, writer, NULL);
    pthread_create(&threads[1], NULL, reader, NULL);
    for (int n = 0; n < 2; n++) pthread_join(threads[n], NULL);
    return 0;
}
";

/// Two threads write many bytes at once, by a string instruction and by a vector.
const WIDE: &str = "#include <pthread.h>
#include <string.h>
typedef char vector __attribute__((vector_size(16), aligned(1)));
static __attribute__((aligned(64))) char area[64];
static char other[200];
static void *filler(void *argument) {
    void *to = area;
    unsigned long count = 12;
    __asm__ volatile(\"rep stosl\" : \"+D\"(to), \"+c\"(count) : \"a\"(0x04030201) : \"memory\");
    memset(other, 'x', sizeof other);
    return argument;
}
static void *layer(void *argument) {
    *(volatile vector *)(area + 41) = (vector){ 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h' };
    volatile char seen = other[100];
    return seen ? argument : 0;
}
int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], 0, filler, 0);
    pthread_create(&threads[1], 0, layer, 0);
    for (int n = 0; n < 2; n++) pthread_join(threads[n], 0);
    return 0;
}
";

/// A variable that nobody declared atomic guards another one.
const FLAG: &str = "#include <pthread.h>
#include <sched.h>
static volatile int ready;
static int data;
static void *writer(void *argument) {
    data = 42;
    ready = 1;
    return argument;
}
static void *reader(void *argument) {
    while (!ready) sched_yield();
    return data == 42 ? argument : &data;
}
int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, writer, NULL);
    pthread_create(&threads[1], NULL, reader, NULL);
    for (int n = 0; n < 2; n++) pthread_join(threads[n], NULL);
    return 0;
}
";

/// Two threads with names of their own set two variables by one function, called in one line, and a thread-local one of the
/// first thread.
const NAMED: &str = "#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <sys/prctl.h>
static sem_t named;
static short cold, colder;
static __thread double share;
static double *whose;
static __attribute__((noinline)) void set(short *what, short value) {
    *what = value;
}
static void *chief(void *argument) {
    prctl(PR_SET_NAME, \"chief\", 0, 0, 0);
    set(&cold, -7), set(&colder, -7);
    *whose = 1.5;
    return argument;
}
static void *helper(void *argument) {
    sem_wait(&named);
    set(&cold, -8), set(&colder, -8);
    *whose = 2.5;
    return argument;
}
int main(void) {
    pthread_t threads[2];
    whose = &share;
    sem_init(&named, 0, 0);
    pthread_create(&threads[0], NULL, chief, NULL);
    pthread_create(&threads[1], NULL, helper, NULL);
    pthread_setname_np(threads[1], \"helper\");
    sem_post(&named);
    for (int n = 0; n < 2; n++) pthread_join(threads[n], NULL);
    return 0;
}
";

fn build_tally(desk: &Desk) -> std::path::PathBuf {
    let certain = TALLY.replace("total, calls)", "total, 2000L)");
    assert_ne!(certain, TALLY);
    desk.build("tally", &certain)
}

fn races(run: &Run) -> &str {
    assert_eq!(run.status, Some(66), "{run:?}");
    &run.stdout
}

#[test]
fn a_program_is_recorded_and_searched_in_one_command() {
    let desk = Desk::new();
    build_tally(&desk);
    let live = desk.relive(["races", "--live", "--", "./tally"]);
    assert!(live.stderr.contains("relive: recorded to DESK/traces/tally-1 "), "{}", live.stderr);
    let text = races(&live);
    assert!(text.strip_prefix(TALLIED).is_some_and(|text| text.starts_with("1 data race\n")), "{text}");
    // The recording is there for whatever comes next.
    let again = desk.relive(["races", "-q"]);
    assert!(races(&again).starts_with("1 data race\n"), "{}", again.stdout);
    assert_eq!(again.stderr, "");
    assert_eq!(desk.relive(["replay", "-q"]).stdout, TALLIED);
}

#[test]
fn a_recording_can_be_followed_by_the_search() {
    let desk = Desk::new();
    build_tally(&desk);
    desk.build("block", BLOCK);
    desk.build("ordered", ORDERED);
    let tally = desk.relive(["record", "-q", "--then", "races", "--", "./tally"]);
    assert_eq!((tally.status, &*tally.stdout), (Some(66), TALLIED));
    assert!(tally.stderr.starts_with("1 data race\n"), "{}", tally.stderr);
    let block = desk.relive(["record", "-q", "--then", "races", "--", "./block"]);
    assert_eq!(block.status, Some(3), "a failure of the program itself is told first");
    assert!(block.stderr.starts_with("1 data race\n"), "{}", block.stderr);
    let ordered = desk.relive(["record", "-q", "--then", "races", "--", "./ordered"]);
    assert_eq!((ordered.status, &*ordered.stderr), (Some(0), "no data races"));
}

#[test]
fn threads_and_blocks_are_told_with_where_they_were_made() {
    let desk = Desk::new();
    desk.build("block", BLOCK);
    desk.relive(["record", "-q", "--environment", "--", "./block"]);
    let found = desk.relive(["races", "-q"]);
    let text = races(&found);
    let told = text.replace("\n    ", " ").replace("\n  ", " ");
    for words in [
        "user() block.c:6 writes",
        "other() block.c:10 writes",
        "thread created by thread 0 at main() block.c:17",
        "thread created by thread 0 at main() block.c:18",
        "inside a heap block of 32 bytes allocated by thread 0 at make() block.c:13, called by main() block.c:16",
    ] {
        assert!(told.contains(words), "{words}\n{text}");
    }
    assert!(!told.contains("called by __libc") && !told.contains("_start()"), "what called main(): {text}");
}

#[test]
fn of_wide_accesses_the_bytes_that_race_are_told() {
    let desk = Desk::new();
    desk.build("wide", WIDE);
    desk.relive(["record", "-q", "--environment", "--", "./wide"]);
    let found = desk.relive(["races", "-q"]);
    let text = races(&found);
    for words in [
        "writes 48 bytes, those that race: 02 03 04 01 02 03 04\n",
        "writes 16 bytes, those that race: 61 62 63 64 65 66 67\n",
        "bytes, those that race: 78\n",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    let json = desk.relive(["races", "-q", "--format", "json"]);
    assert!(races(&json).contains("\"racing_bytes\": \"02030401020304\""), "{}", json.stdout);
}

#[test]
fn a_race_that_made_the_replay_diverge_is_told_although_its_second_access_came_later() {
    let desk = Desk::new();
    desk.build("late", LATE);
    let recorded = desk.relive(["record", "-q", "--environment", "--", "./late"]);
    assert_eq!(recorded.stdout, "ready\n");
    let found = desk.relive(["races", "-q"]);
    let text = races(&found);
    assert!(text.starts_with("1 data race\n"), "{text}");
    for words in ["main() late.c:16 reads ready", "writer() late.c:9 writes it", "The replay left its recording here:"]
    {
        assert!(text.contains(words), "{words}\n{text}");
    }
}

#[test]
fn values_locks_and_variables_of_stacks_are_told() {
    let desk = Desk::new();
    desk.build("held", HELD);
    desk.relive(["record", "-q", "--environment", "--", "./held"]);
    let found = desk.relive(["races", "-q"]);
    let text = races(&found);
    let told = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "writes 4 bytes, value 40 17 |",
        "holds locks[0], taken at enter() held.c:4, called by adder() held.c:8",
        "holds locks[1], taken at enter() held.c:4, called by setter() held.c:16",
        "local of main(), declared at held.c:24, on the stack of thread 0",
    ] {
        assert!(told.contains(words), "{words}\n{text}");
    }
    assert!(text.starts_with("1 data race\n") && told.contains("results.sum: 4 bytes at "), "{text}");
}

#[test]
fn callers_of_what_was_not_optimised_and_locks_that_are_no_mutexes_are_told() {
    let desk = Desk::new();
    desk.build_with("readers", READERS, &["-O0"]);
    desk.relive(["record", "-q", "--environment", "--", "./readers"]);
    let found = desk.relive(["races", "-q"]);
    let told = races(&found).split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["holds table for reading, taken at", "read-lock of table (event 1)"] {
        assert!(told.contains(words), "{words}\n{}", found.stdout);
    }
    assert_eq!(told.matches("#1 count()").count(), 2, "{}", found.stdout);
    assert_eq!(told.matches("#2 reader()").count(), 2, "{}", found.stdout);
}

#[test]
fn what_is_suppressed_is_counted_and_no_failure() {
    let desk = Desk::new();
    build_tally(&desk);
    desk.relive(["record", "-q", "--environment", "--", "./tally"]);
    std::fs::write(desk.path("known"), "# the count is only a hint\nrace_top:^count$\n").unwrap();
    let hidden = desk.relive(["races", "-q", "--suppressions", "known"]);
    assert_eq!((hidden.status, &*hidden.stdout), (Some(0), "no data races; 1 suppressed\n"));
    std::fs::write(desk.path("known"), "racing:count\n").unwrap();
    let wrong = desk.relive(["races", "-q", "--suppressions", "known"]);
    assert_eq!(wrong.status, Some(125));
    assert!(wrong.stderr.starts_with("relive: ") && wrong.stderr.contains("known:1"), "{}", wrong.stderr);
}

#[test]
fn a_rule_for_one_variable_hides_no_other_of_the_same_lines() {
    let desk = Desk::new();
    desk.build("named", NAMED);
    desk.relive(["record", "-q", "--environment", "--", "./named"]);
    std::fs::write(desk.path("known"), "race:^cold$\nrace:^share$\n").unwrap();
    let text = desk.relive(["races", "-q", "--suppressions", "known"]);
    let text = races(&text);
    assert!(text.starts_with("1 data race") && text.contains("; 2 suppressed\n"), "{text}");
    assert!(text.contains("\n  colder: 2 bytes at ") && !text.contains("hid nothing"), "{text}");
}

#[test]
fn threads_thread_local_variables_and_values_are_told_as_the_program_calls_them() {
    let desk = Desk::new();
    desk.build("named", NAMED);
    desk.relive(["record", "-q", "--environment", "--", "./named"]);
    let found = desk.relive(["races", "-q"]);
    let text = races(&found);
    assert!(text.starts_with("3 data races"), "{text}");
    for words in [
        "thread 0.0 \"chief\" writes 2 bytes, value -7",
        "thread 0.1 \"helper\" writes 2 bytes, value -8",
        "share: 8 bytes at ",
        "thread-local variable of thread 0, declared at named.c:7",
        "thread 0.0 \"chief\" writes 8 bytes, value 1.5",
        "thread 0.1 \"helper\" writes 8 bytes, value 2.5",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    let json = desk.relive(["races", "-q", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(races(&json)).unwrap();
    let own = json["races"].as_array().unwrap().iter().find(|race| race["object"]["kind"] == "thread-local");
    let own = own.expect("the thread-local variable");
    assert_eq!((&own["object"]["name"], &own["object"]["thread"]), (&"share".into(), &"0".into()));
    let of = |label: &str| own["accesses"].as_array().unwrap().iter().find(|it| it["thread_label"] == label);
    let chief = of("chief").expect("the chief's access");
    assert_eq!((&chief["value"], &chief["value_text"]), (&"0x3ff8000000000000".into(), &"1.5".into()));
    assert!(of("helper").is_some(), "{own}");
    let sarif = desk.relive(["races", "-q", "--format", "sarif"]);
    assert!(races(&sarif).contains("thread 0.1 \\\"helper\\\" writes"), "{}", sarif.stdout);
}

#[test]
fn without_symbols_places_are_named_and_atomics_are_not_told_apart() {
    let desk = Desk::new();
    let program = desk.build("named", NAMED);
    assert!(std::process::Command::new("strip").arg(&program).status().is_ok_and(|status| status.success()));
    desk.relive(["record", "-q", "--environment", "--", "./named"]);
    let found = desk.relive(["races", "-q"]);
    let text = races(&found);
    assert!(text.contains("; but without debug information, atomic loads and"), "{text}");
    let rules: Vec<&str> = text.lines().filter_map(|line| line.split("to suppress it: ").nth(1)).collect();
    assert!(!rules.is_empty() && rules.iter().all(|rule| rule.starts_with("race_top:^named+0x")), "{text}");
    let known = rules.iter().map(|rule| format!("{rule}\n")).collect::<String>();
    std::fs::write(desk.path("known"), known).unwrap();
    let hidden = desk.relive(["races", "-q", "--suppressions", "known"]);
    assert_eq!(hidden.status, Some(0), "{}", hidden.stdout);
}

#[test]
fn what_is_annotated_as_atomic_orders_what_it_guards() {
    let desk = Desk::new();
    desk.build("flag", FLAG);
    desk.relive(["record", "-q", "--environment", "--", "./flag"]);
    let plain = desk.relive(["races", "-q"]);
    assert!(races(&plain).starts_with("2 data races\n"), "{}", plain.stdout);
    for known in ["atomic:^ready$\n", "# both of its sides\natomic_in:^reader$\natomic_in:^writer$\n"] {
        std::fs::write(desk.path("known"), known).unwrap();
        let told = desk.relive(["races", "-q", "--annotations", "known"]);
        assert_eq!(told.status, Some(0), "{told:?}");
        assert!(told.stdout.starts_with("no data races"), "{}", told.stdout);
        assert!(!told.stdout.contains("data: 4 bytes"), "{}", told.stdout);
    }
    std::fs::write(desk.path("known"), "atomic:ready\nrace:data\n").unwrap();
    let wrong = desk.relive(["races", "-q", "--annotations", "known"]);
    assert_eq!(wrong.status, Some(125));
    assert!(wrong.stderr.contains("known:2: not an annotation"), "{}", wrong.stderr);
}

#[test]
fn fields_of_blocks_and_lines_can_be_annotated() {
    let desk = Desk::new();
    desk.build("nodes", NODES);
    desk.relive(["record", "-q", "--environment", "--", "./nodes"]);
    let plain = desk.relive(["races", "-q"]);
    assert!(races(&plain).starts_with("2 data races\n"), "{}", plain.stdout);
    for known in ["atomic_heap:^make$+4,4\n", "atomic_at:nodes.c:9\natomic_at:nodes.c:18\n"] {
        std::fs::write(desk.path("known"), known).unwrap();
        let told = desk.relive(["races", "-q", "--annotations", "known"]);
        assert_eq!(told.status, Some(0), "{told:?}");
        assert!(told.stdout.starts_with("no data races; 1 possible"), "{}", told.stdout);
    }
    // Of other bytes, and of one side alone.
    std::fs::write(desk.path("known"), "atomic_heap:^make$+0,3\natomic_at:nodes.c:9\n").unwrap();
    let told = desk.relive(["races", "-q", "--annotations", "known"]);
    assert!(races(&told).starts_with("2 data races\n"), "{}", told.stdout);
    // Who says that a race does no harm says nothing of order.
    std::fs::write(desk.path("known"), "benign_at:nodes.c:9\n").unwrap();
    let told = desk.relive(["races", "-q", "--annotations", "known"]);
    assert!(races(&told).starts_with("1 data race; 1 suppressed\n"), "{}", told.stdout);
    assert!(told.stdout.contains("nodes.c:8 writes"), "{}", told.stdout);
}

#[test]
fn other_programs_get_json_and_sarif() {
    let desk = Desk::new();
    build_tally(&desk);
    desk.relive(["record", "-q", "--environment", "--", "./tally"]);
    let parsed = |format: &str| {
        let run = desk.relive(["races", "-q", "--format", format]);
        serde_json::from_str::<serde_json::Value>(races(&run)).expect("one JSON value")
    };
    let json = parsed("json");
    assert_eq!(json["races"][0]["accesses"][0]["stack"][0]["function"], "count");
    let sarif = parsed("sarif");
    assert_eq!(sarif["version"], "2.1.0");
    assert_eq!(sarif["runs"][0]["results"][0]["codeFlows"][0]["threadFlows"].as_array().unwrap().len(), 2);
}

#[test]
fn what_cannot_be_searched_is_refused_with_the_remedy() {
    let desk = Desk::new();
    let program = build_tally(&desk);
    desk.relive(["record", "-q", "--", "./tally"]);
    let plain = desk.relive(["races"]);
    assert_eq!((plain.status, &*plain.stdout), (Some(125), ""));
    assert!(plain.stderr.ends_with("record it with --environment"), "{}", plain.stderr);
    desk.relive(["record", "-q", "--environment", "--", "./tally"]);
    std::fs::remove_file(&program).unwrap();
    desk.build("tally", ORDERED);
    let rebuilt = desk.relive(["races"]);
    assert_eq!(rebuilt.status, Some(125));
    assert!(rebuilt.stderr.contains("tally") && rebuilt.stderr.lines().count() == 1, "{}", rebuilt.stderr);
    for usage in
        [&["races", "--live"][..], &["races", "--", "./tally"], &["races", "--live", "tally-1", "--", "./tally"]]
    {
        let run = desk.relive(usage);
        assert_eq!(run.status, Some(125), "{usage:?}: {run:?}");
        assert!(run.stderr.contains("Usage: relive races"), "{}", run.stderr);
    }
}

#[test]
fn a_translated_run_is_the_programs_and_what_cannot_be_translated_says_so() {
    let desk = Desk::new();
    build_tally(&desk);
    desk.build_with("whole", TALLY, &["-static"]);
    let run = desk.relive(["run", "--dbi", "--", "./tally"]);
    assert_eq!((run.status, &*run.stdout, &*run.stderr), (Some(0), TALLIED, ""));
    let whole = desk.relive(["run", "--dbi", "--", "./whole"]);
    assert_eq!((whole.status, &*whole.stdout), (Some(125), ""));
    assert!(whole.stderr.contains("statically linked"), "{}", whole.stderr);
    // There is no room for the code cache and its tables.
    let small = desk.shell("ulimit -v 1000000; exec \"$RELIVE\" run --dbi -- ./tally");
    assert_eq!((small.status, &*small.stdout), (Some(0), TALLIED));
    assert!(small.stderr.starts_with("relive: the process runs natively: "), "{}", small.stderr);
    assert_eq!(desk.relive(["run", "--dbi", "--", "./nothing"]).status, Some(127));
}
