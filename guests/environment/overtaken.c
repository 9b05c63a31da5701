// Threads that are ordered by an atomic variable alone, which is under test: a replay makes each call of the recording,
// and writes something else. The one that waits comes last in a recording and first in a replay, where that takes no time.
//
// usage: overtaken FILE|- [at|poll]
//
// With `at` it writes at a place of the file, and then says that it did; with `poll` it asks twice whether it may, if the one
// that waits was first.

#include "../transcript.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>

static atomic_int first;

static void *sleeper(void *unused)
{
    sigset_t no_signal;
    int none = 0;
    (void)unused;
    // A sleep would tell how far the others are meanwhile.
    must(sigemptyset(&no_signal));
    sigtimedwait(&no_signal, NULL, &(struct timespec){.tv_nsec = 200000000});
    atomic_compare_exchange_strong(&first, &none, 's');
    return NULL;
}

static void *computer(void *unused)
{
    int none = 0;
    (void)unused;
    for (volatile long round = 0; round < 50000000; round++)
        ;
    atomic_compare_exchange_strong(&first, &none, 'c');
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[2];
    int out = argc > 1 && !is(argv[1], "-") ? open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0600) : 1;
    must_be(out >= 0);
    must(pthread_create(&threads[0], NULL, sleeper, NULL));
    must(pthread_create(&threads[1], NULL, computer, NULL));
    must(pthread_join(threads[0], NULL));
    must(pthread_join(threads[1], NULL));
    char line[] = "? was first\n";
    line[0] = (char)first;
    struct pollfd ready = {.fd = out, .events = POLLOUT};
    for (int times = 0; argc > 2 && is(argv[2], "poll") && times < (first == 's' ? 2 : 1); times++)
        must_be(poll(&ready, 1, 1000) == 1);
    if (argc > 2 && is(argv[2], "at")) {
        must_be(pwrite(out, line, sizeof line - 1, 7) == sizeof line - 1);
        must_be(pwrite(out, line, sizeof line - 1, 99) == sizeof line - 1);
        must_be(write(1, "done\n", 5) == 5);
        return 3;
    }
    must_be(write(out, line, sizeof line - 1) == sizeof line - 1);
    return 0;
}
