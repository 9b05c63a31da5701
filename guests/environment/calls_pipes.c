// Pipes and what moves data between descriptors; descriptors that count, tell the time or report changes.

#include "calls.h"
#include <linux/fanotify.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

static void pipes(void)
{
    int *one = room(8), *two = room(8), *three = room(8);
    char *text = room(100);
    CALL(pipe, one);
    bytes("pipe", one, 8);
    CALL(pipe2, two, O_CLOEXEC | O_NONBLOCK);
    bytes("pipe2", two, 8);
    CALL(pipe2, three, 0x40000000);
    bytes("pipe2", three, 8);
    CALL(write, one[1], "through and through", 19);
    CALL(tee, one[0], two[1], 10, 0);
    CALL(read, two[0], text, 100);
    wrote("tee", text, 100);
    CALL(read, two[0], text, 100);
    wrote("none", text, 100);
    int64_t *at = copy_of(&(int64_t){4}, 8), *to = copy_of(&(int64_t){1}, 8);
    int file = open("large", O_RDONLY), copy = open("copy", O_CREAT | O_RDWR, 0600);
    CALL(splice, file, at, one[1], NULL, 30, 0);
    bytes("from", at, 8);
    CALL(splice, one[0], NULL, copy, to, 40, 0);
    bytes("to", to, 8);
    CALL(splice, file, NULL, one[1], NULL, 5, 0);
    CALL(splice, file, at, copy, to, 30, 0);
    bytes("from", at, 8);
    CALL(pread64, copy, text, 100, 0);
    wrote("copy", text, 100);
    struct iovec part = {text, 10};
    CALL(vmsplice, one[1], &part, 1, 0);
    CALL(read, one[0], text, 100);
    wrote("rest", text, 100);
}

static void counters(void)
{
    uint64_t *count = room(8);
    int fd = CALL(eventfd2, 3, EFD_NONBLOCK);
    CALL(write, fd, &(uint64_t){4}, 8);
    CALL(read, fd, count, 8);
    wrote("count", count, 8);
    CALL(read, fd, count, 8);
    wrote("count", count, 8);
    CALL(eventfd, 1);
    struct itimerspec span = {{0, 2000000}, {0, 1000000}}, *left = room(sizeof *left);
    fd = CALL(timerfd_create, CLOCK_MONOTONIC, 0);
    CALL(timerfd_settime, fd, 0, &span, left);
    wrote("before", left, sizeof *left);
    CALL(read, fd, count, 8);
    wrote("expired", count, 8);
    CALL(timerfd_gettime, fd, left);
    wrote("left", left, sizeof *left);
    CALL(timerfd_settime, fd, 0, &span, left);
    wrote("before", left, sizeof *left);
}

static void signals(void)
{
    sigset_t set;
    struct signalfd_siginfo *told = room(2 * sizeof *told);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    must_be(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    int fd = CALL(signalfd4, -1, &set, 8, SFD_NONBLOCK);
    CALL(signalfd, -1, &set, 8);
    CALL(read, fd, told, 2 * sizeof *told);
    wrote("signals", told, 2 * sizeof *told);
}

static void changes(void)
{
    char *text = room(200);
    int fd = CALL(inotify_init1, IN_NONBLOCK);
    CALL(inotify_init);
    int watch = CALL(inotify_add_watch, fd, ".", IN_CREATE | IN_DELETE | IN_MOVE);
    must_be(rename("small", "smaller") == 0);
    must_be(unlink("doomed") == 0);
    CALL(read, fd, text, 10);
    wrote("too little room", text, 200);
    CALL(read, fd, text, 200);
    wrote("changes", text, 200);
    CALL(inotify_rm_watch, fd, watch);
    CALL(read, fd, text, 200);
    wrote("removed", text, 200);
    fd = CALL(fanotify_init, FAN_CLASS_NOTIF | FAN_NONBLOCK, O_RDONLY);
    CALL(fanotify_mark, fd, FAN_MARK_ADD, FAN_OPEN | FAN_EVENT_ON_CHILD, AT_FDCWD, ".");
    close(open("smaller", O_RDONLY));
    if (fd >= 0) {
        CALL(read, fd, text, 200);
        wrote("opened", text, 200);
    }
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    pipes();
    counters();
    signals();
    changes();
    return 0;
}
