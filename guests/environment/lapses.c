// A thread works and says how far it is by a plain variable; another one lets time pass and looks. Nothing but time
// orders the looks. It looks so often, or until the work is done; or a few times, and then waits in the kernel for the
// other thread, or for a child that works as well; or it only looks from then on, without any call.
//
// usage: lapses COUNT often|until|futex|child|spin WAY

#include "../transcript.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int round_now;
static volatile uint32_t is_done;
static const char *way;
static int count, queue;

static void lapse(int milliseconds)
{
    struct timespec exact = {.tv_nsec = milliseconds * 1000000};
    struct timeval rough = {.tv_usec = milliseconds * 1000};
    struct epoll_event event;
    if (is(way, "sleep"))
        must(nanosleep(&exact, NULL));
    else if (is(way, "poll"))
        must(poll(NULL, 0, milliseconds));
    else if (is(way, "ppoll"))
        must(ppoll(NULL, 0, &exact, NULL));
    else if (is(way, "select"))
        must(select(0, NULL, NULL, NULL, &rough));
    else
        must(epoll_wait(queue, &event, 1, milliseconds));
}

static void *work(void *argument)
{
    unsigned seed = (unsigned)getpid();
    for (int round = 1; round <= count; round++) {
        for (int i = rand_r(&seed) % 1000; i >= 0; i--) {
            must(pthread_mutex_lock(&mutex));
            must(pthread_mutex_unlock(&mutex));
        }
        round_now = round;
        // Known to be behind the store: what stands between two operations is nobody's to tell.
        must(pthread_mutex_lock(&mutex));
        must(pthread_mutex_unlock(&mutex));
        lapse(1 + rand_r(&seed) % 4);
    }
    is_done = 1;
    syscall(SYS_futex, &is_done, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    return argument;
}

int main(int argc, char **argv)
{
    static struct transcript seen;
    pthread_t worker;
    pid_t child = 0;
    int often, status = 0;
    count = number(argc, argv, 1, 30);
    often = is(argv[2], "often") ? count : is(argv[2], "until") ? 0 : count / 4;
    way = argv[3];
    must_be((queue = epoll_create1(0)) >= 0);
    if (is(argv[2], "child") && (child = fork()) == 0) {
        work(NULL);
        _exit(7);
    }
    must(pthread_create(&worker, NULL, work, NULL));
    for (int look = 0; look < often || (often == 0 && !is_done); look++) {
        lapse(3);
        if (often > 0)
            note(&seen, round_now);
    }
    while (is(argv[2], "futex") && !is_done)
        syscall(SYS_futex, &is_done, FUTEX_WAIT, 0, NULL, NULL, 0);
    while (is(argv[2], "spin") && !is_done) {
    }
    must_be(child == 0 || (waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7));
    must(pthread_mutex_lock(&mutex));
    note(&seen, round_now);
    must(pthread_mutex_unlock(&mutex));
    must(pthread_join(worker, NULL));
    show("seen", &seen);
    return 0;
}
