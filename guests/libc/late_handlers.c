// Threads register handlers while another one is in exit: which of them still run depends on
// when they came, beside handlers that were there before.
#include "../transcript.h"

static struct transcript ran;

static void noted(int status, void *argument)
{
    (void)status;
    note(&ran, (uintptr_t)argument);
    jitter();
}

static void told(void)
{
    show("ran", &ran);
}

static void by_argument(void)
{
    note(&ran, MOST_THREADS);
    jitter();
}

static void *worker(void *argument)
{
    for (int round = 0; round < 2000; round++) {
        if (on_exit(noted, argument) || atexit(by_argument))
            break;
        jitter();
    }
    return NULL;
}

// THREADS
int main(int argc, char **argv)
{
    must_be(atexit(told) == 0);
    int threads = number(argc, argv, 1, 4);
    for (intptr_t at = 0; at < threads; at++) {
        pthread_t thread;
        must(pthread_create(&thread, NULL, worker, (void *)at));
        must(pthread_detach(thread));
    }
    must_be(usleep(1000) == 0);
    return 5;
}
