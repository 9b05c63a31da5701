// Every mutex type with every way to lock it: threads fight for one mutex and
// note who got it. Failed tries and timeouts are counted, and printed: they are
// recorded values.
#include "../transcript.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const char *how;
static int rounds;
static int recursive;
static struct transcript transcript;
static unsigned long failures[MOST_THREADS];

static void make(const char *kind)
{
    pthread_mutexattr_t attributes;
    if (is(kind, "static"))
        return;
    if (is(kind, "static_recursive")) {
        mutex = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
        recursive = 1;
        return;
    }
    if (is(kind, "static_adaptive")) {
        mutex = (pthread_mutex_t)PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
        return;
    }
    must(pthread_mutexattr_init(&attributes));
    if (strstr(kind, "recursive")) {
        must(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE));
        recursive = 1;
    }
    if (strstr(kind, "errorcheck"))
        must(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK));
    if (strstr(kind, "adaptive"))
        must(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP));
    if (strstr(kind, "robust"))
        must(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST));
    if (strstr(kind, "pi"))
        must(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT));
    if (strstr(kind, "shared"))
        must(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED));
    must(pthread_mutex_init(&mutex, &attributes));
    must(pthread_mutexattr_destroy(&attributes));
}

static int attempt(int way)
{
    struct timespec until;
    switch (way) {
    case 0:
        return pthread_mutex_lock(&mutex);
    case 1:
        return pthread_mutex_trylock(&mutex);
    case 2:
        until = in_microseconds(CLOCK_REALTIME, 20);
        return pthread_mutex_timedlock(&mutex, &until);
    default:
        until = in_microseconds(CLOCK_MONOTONIC, 20);
        return pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &until);
    }
}

static void take(int who, int round)
{
    int way = is(how, "lock") ? 0 : is(how, "try") ? 1 : is(how, "timed") ? 2 : is(how, "clock") ? 3 : (who + round) % 4;
    int error;
    while ((error = attempt(way)) != 0) {
        must_be(error == EBUSY || error == ETIMEDOUT);
        failures[who]++;
        jitter();
    }
}

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        take(who, round);
        note(&transcript, who);
        if (recursive) {
            take(who, round + 1);
            note(&transcript, who);
            must(pthread_mutex_unlock(&mutex));
        }
        if (round % 8 == 0)
            jitter();
        must(pthread_mutex_unlock(&mutex));
        jitter();
    }
    return NULL;
}

// THREADS ROUNDS KIND lock|try|timed|clock|mixed
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 100);
    make(word(argc, argv, 3, "normal"));
    how = word(argc, argv, 4, "lock");
    crew(threads, worker);
    show("order", &transcript);
    for (int who = 0; who < threads; who++)
        printf("failures %d %lu\n", who, failures[who]);
    must(pthread_mutex_destroy(&mutex));
    return 0;
}
