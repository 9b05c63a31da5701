//! A signal that strikes shortly before its thread waits wakes it.
//!
//! Apart from the guests because natively it does not: the handler has run by then, and
//! the thread waits until its time is up. Put off to the call, it would never wake.

#[path = "launching/desk.rs"]
mod desk;

use desk::Desk;

const WAITS: &str = r#"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t struck;
static volatile unsigned long counted;
static int pair[2], epoll;

static void handler(int number) { (void)number; struck++; }

static void compute(unsigned long steps) {
    for (unsigned long i = 0; i < steps; i++) counted += i;
}

static unsigned long steps_of(double seconds) {
    struct timespec a, b;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    compute(1000000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    return (unsigned long)(seconds * 1e6 / (b.tv_sec - a.tv_sec + (b.tv_nsec - a.tv_nsec) * 1e-9));
}

/* Whether it was interrupted. All are over after a twentieth of a second, sleep after one. */
static int waits(const char *how) {
    struct timeval some = { 0, 50000 };
    struct timespec little = { 0, 50000000 };
    struct epoll_event event;
    char letter;
    if (!strcmp(how, "poll")) return poll(0, 0, 50) < 0 && errno == EINTR;
    if (!strcmp(how, "select")) return select(0, 0, 0, 0, &some) < 0 && errno == EINTR;
    if (!strcmp(how, "epoll")) return epoll_wait(epoll, &event, 1, 50) < 0 && errno == EINTR;
    if (!strcmp(how, "sleep")) return sleep(1) != 0;
    if (!strcmp(how, "usleep")) return usleep(50000) < 0 && errno == EINTR;
    if (!strcmp(how, "nanosleep")) return nanosleep(&little, 0) < 0 && errno == EINTR;
    if (!strcmp(how, "clock_nanosleep")) return clock_nanosleep(CLOCK_MONOTONIC, 0, &little, 0) == EINTR;
    if (!strcmp(how, "read")) return read(pair[0], &letter, 1) < 0 && errno == EINTR;
    if (!strcmp(how, "recv")) return recv(pair[0], &letter, 1, 0) < 0 && errno == EINTR;
    return -1;
}

int main(int argc, char **argv) {
    struct sigaction action = { .sa_handler = handler, .sa_flags = argc > 2 ? SA_RESTART : 0 };
    struct timeval some = { 0, 50000 };
    struct itimerval soon = { { 0, 0 }, { 0, 500 } };
    int woken = 0;
    sigaction(SIGALRM, &action, 0);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &some, sizeof some);
    epoll = epoll_create1(0);
    unsigned long steps = steps_of(0.0015);
    /* On a busy machine more than ten milliseconds may pass in there: the signal strikes at once then. */
    for (int round = 0; round < 30 && !woken; round++) {
        setitimer(ITIMER_REAL, &soon, 0);
        compute(steps);
        woken = waits(argv[1]);
    }
    printf("%s %s\n", argv[1], woken ? "was woken" : "slept");
    return 0;
}
"#;

fn check(recording: &[&str], how: &[&str], expected: &str) {
    let desk = Desk::new();
    desk.build("waits", WAITS);
    let recorded = desk.relive(["record", "-q"].iter().chain(recording).chain(&["./waits"]).chain(how));
    assert_eq!((recorded.status, recorded.stdout), (Some(0), format!("{} {expected}\n", how[0])));
    for _ in 0..2 {
        let replayed = desk.relive(["replay"]);
        assert_eq!(
            (replayed.status, replayed.stdout),
            (Some(0), format!("{} {expected}\n", how[0])),
            "{}",
            replayed.stderr
        );
    }
}

#[test]
fn a_signal_that_was_put_off_to_a_wait_ends_it() {
    for how in ["poll", "select", "epoll", "sleep", "usleep", "nanosleep", "clock_nanosleep", "read", "recv"] {
        check(&["--environment"], &[how], "was woken");
        check(&[], &[how], "was woken");
    }
}

#[test]
fn it_ends_no_call_that_would_be_made_again() {
    check(&["--environment"], &["poll", "restarts"], "was woken");
    check(&["--environment"], &["recv", "restarts"], "slept");
}
