//! `relive replay --gdb --at-race`: gdb stands right before each access of a race that
//! was found, in whatever pass of its instruction that was.
//!
//! Apart from `races_command.rs`, which asks for races and no debugger.

#[path = "launching/desk.rs"]
mod desk;

use desk::{Desk, Run};

/// Of all passes of one instruction, those of round 57 race.
const ROUND: &str = "#include <pthread.h>
static long cells[2][100], shared;
static void *worker(void *argument) {
    long *own = argument;
    for (volatile int round = 0; round < 100; round++) {
        long *cell = round == 57 ? &shared : &own[round];
        __asm__ volatile(\"\" : \"+r\"(cell));
        *cell += 1;
    }
    return argument;
}
int main(void) {
    pthread_t threads[2];
    for (int n = 0; n < 2; n++) pthread_create(&threads[n], NULL, worker, cells[n]);
    for (int n = 0; n < 2; n++) pthread_join(threads[n], NULL);
    return 0;
}
";
/// Threads copy by a function of the library, two of them to the same place.
const COPY: &str = "#include <pthread.h>
#include <string.h>
struct block { char bytes[4096]; };
static struct block shared, own[4], from;
static volatile unsigned long bytes = 31;
static __attribute__((noinline)) void put(struct block *to) { memcpy(to, &from, bytes); }
static void *worker(void *argument) {
    struct block *mine = argument;
    for (int round = 0; round < 20; round++) put(mine);
    if (mine == &own[1] || mine == &own[3]) put(&shared);
    return argument;
}
int main(void) {
    pthread_t threads[4];
    for (int n = 0; n < 4; n++) pthread_create(&threads[n], NULL, worker, &own[n]);
    for (int n = 0; n < 4; n++) pthread_join(threads[n], NULL);
    return 0;
}
";
/// The same, by an instruction that repeats itself.
const REPEATED: &str = "#include <pthread.h>
static char shared[64], own[2][64];
static void fill(char *to, int value) {
    long count = 50;
    __asm__ volatile(\"rep stosb\" : \"+D\"(to), \"+c\"(count) : \"a\"(value) : \"memory\");
}
static void *worker(void *argument) {
    for (volatile int round = 0; round < 9; round++) fill(round == 7 ? shared : argument, round);
    return argument;
}
int main(void) {
    pthread_t threads[2];
    for (int n = 0; n < 2; n++) pthread_create(&threads[n], NULL, worker, own[n]);
    for (int n = 0; n < 2; n++) pthread_join(threads[n], NULL);
    return 0;
}
";
/// A handler of the first thread, and another thread.
const HANDLER: &str = "#include <pthread.h>
#include <signal.h>
static volatile int state;
static void handler(int number) { state = number; }
static void *worker(void *argument) {
    state = 1;
    return argument;
}
int main(void) {
    pthread_t thread;
    signal(SIGUSR1, handler);
    pthread_create(&thread, NULL, worker, NULL);
    raise(SIGUSR1);
    pthread_join(thread, NULL);
    return 0;
}
";
/// A block is given back while another thread writes to it.
const FREED: &str = "#include <pthread.h>
#include <stdlib.h>
static volatile long *blocks[10];
static void *user(void *argument) {
    for (int n = 0; n < 10; n++) *blocks[n] = n;
    return argument;
}
static void *other(void *argument) {
    free((void *)blocks[7]);
    return argument;
}
int main(void) {
    pthread_t threads[2];
    for (int n = 0; n < 10; n++) blocks[n] = malloc(sizeof(long));
    pthread_create(&threads[0], NULL, user, NULL);
    pthread_create(&threads[1], NULL, other, NULL);
    for (int n = 0; n < 2; n++) pthread_join(threads[n], NULL);
    return 0;
}
";
/// Threads of a fork child.
const CHILD: &str = "#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile long total;
static void *worker(void *argument) {
    for (long n = 0; n < 10; n++) total = n;
    return argument;
}
int main(void) {
    int status = 0;
    if (fork() == 0) {
        pthread_t threads[2];
        for (int n = 0; n < 2; n++) pthread_create(&threads[n], NULL, worker, NULL);
        for (int n = 0; n < 2; n++) pthread_join(threads[n], NULL);
        return 0;
    }
    wait(&status);
    return status;
}
";

/// What gdb says to `commands` before each of the two accesses of race 1.
fn at_both(desk: &Desk, source: &str, commands: &[&str]) -> [String; 2] {
    desk.build("program", source);
    desk.relive(["record", "-q", "--environment", "--", "./program"]);
    let found = desk.relive(["races", "-q"]);
    assert_eq!(found.status, Some(66), "{found:?}");
    let mut arguments = vec!["replay", "--gdb", "--gdb-batch", "--at-race", "1"];
    let all = [commands, &["continue"], commands].concat();
    arguments.extend(all.iter().flat_map(|command| ["--gdb-command", command]));
    let said = desk.relive(arguments).stdout;
    let (first, rest) =
        divided(&said, "relive: right before the first access of race 1; continue leads to the second\n");
    let (between, second) = divided(rest, "relive: right before the second access of race 1\n");
    assert!(!first.contains("the second access"), "{said}");
    [between.to_owned(), second.to_owned()]
}

fn divided<'a>(said: &'a str, words: &str) -> (&'a str, &'a str) {
    said.split_once(words).unwrap_or_else(|| panic!("gdb never said `{words}`: {said}"))
}

fn has(said: &str, words: &str) {
    assert!(said.contains(words), "`{words}` is not in {said}");
}

#[test]
fn of_all_rounds_of_a_loop_it_is_the_one_that_races() {
    let desk = Desk::new();
    let stops = at_both(&desk, ROUND, &["print round", "print cell == &shared", "bt", "info threads"]);
    for said in &stops {
        has(said, " = 57\n");
        has(said, " = 1\n");
        // The thread's own stack, to its end.
        has(said, "#0  worker (argument=");
        has(said, "start_thread (");
    }
    let listed = |said: &str| said.lines().filter(|line| line.contains(" Thread 0x")).count();
    assert!(listed(&stops[0]) >= 2, "all threads are there: {}", stops[0]);
}

#[test]
fn the_thread_that_races_is_told_from_others_in_the_same_function_of_the_library() {
    let desk = Desk::new();
    let stops = at_both(&desk, COPY, &["bt", "thread apply 1 -q bt"]);
    for said in &stops {
        has(said, "put (to=");
        has(said.split_once("#2").map_or(said, |(inner, _)| inner), "<shared>");
        // Others can be looked at, too.
        has(said, "main () at ");
    }
}

#[test]
fn a_repeated_instruction_is_met_at_its_beginning() {
    let desk = Desk::new();
    for said in at_both(&desk, REPEATED, &["print $rcx", "print (char *)$rdi == shared", "info locals", "x/i $pc"]) {
        has(&said, " = 50\n");
        has(&said, " = 1\n");
        has(&said, "rep stos");
    }
}

#[test]
fn a_handler_races_with_a_thread() {
    let desk = Desk::new();
    let stops = at_both(&desk, HANDLER, &["bt", "x/i $pc"]);
    let both = stops.concat();
    has(&both, "#0  handler (number=10)");
    has(&both, "<signal handler called>");
    has(&both, "#0  worker (argument=");
    assert_eq!(both.matches("<state>").count(), 2, "{both}");
}

#[test]
fn what_the_runtime_does_for_the_program_is_met_at_its_call() {
    let desk = Desk::new();
    let both = at_both(&desk, FREED, &["bt 1", "x/i $pc", "info locals"]).concat();
    has(&both, "n = 7");
    has(&both, "free@plt");
}

#[test]
fn a_race_of_another_process_is_met_there() {
    let desk = Desk::new();
    for said in at_both(&desk, CHILD, &["bt 1", "x/i $pc"]) {
        has(&said, "worker (argument=");
        has(&said, "<total>");
    }
}

#[test]
fn a_packed_race_is_met_without_the_program() {
    let desk = Desk::new();
    let program = desk.build("program", ROUND);
    desk.relive(["record", "-q", "--environment", "--", "./program"]);
    assert_eq!(desk.relive(["pack", "-q", "-o", "program.relive"]).status, Some(0));
    std::fs::remove_file(program).unwrap();
    let command = ["replay", "-q", "--gdb", "--gdb-batch", "--at-race", "1", "--gdb-command", "print round"];
    let met = desk.relive(command.into_iter().chain(["program.relive"]));
    has(&met.stdout, "$1 = 57");
}

#[test]
fn a_race_is_looked_for_where_that_was_not_done_and_refused_where_there_is_none() {
    let desk = Desk::new();
    desk.build("program", ROUND);
    desk.relive(["record", "-q", "--environment", "--", "./program"]);
    let asked = |options: &[&str]| -> Run {
        desk.relive([&["replay", "--gdb", "--gdb-batch", "--gdb-command", "print round"], options].concat())
    };
    let searched = asked(&["--at-race", "1"]);
    has(&searched.stdout, "$1 = 57");
    for words in ["first replay, which bytes race", "second replay, which accesses", "going to race 1: another replay"]
    {
        has(&searched.stderr, words);
    }
    // From now on it is known, also by its fingerprint.
    let json = desk.relive(["races", "-q", "--format", "json"]).stdout;
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    let fingerprint = report["races"][0]["fingerprint"].as_str().unwrap().to_owned();
    let known = asked(&["-q", "--at-race", &fingerprint]);
    has(&known.stdout, "$1 = 57");
    assert!(!known.stderr.contains("first replay"), "{}", known.stderr);
    let other = asked(&["--at-race", "2"]);
    assert_eq!(other.status, Some(125));
    has(&other.stderr, "there is no race 2 among the 1 that `relive races` lists");
    let usage = desk.relive(["replay", "--at-race", "1"]);
    assert_eq!(usage.status, Some(125));
    has(&usage.stderr, "--gdb");
    desk.relive(["record", "-q", "--", "./program"]);
    has(&asked(&["--at-race", "1"]).stderr, "record it with --environment");
}
