// A bounded queue between producers and consumers on two conditions: every wait,
// signals sent with and without the mutex held, signal and broadcast, timeouts,
// and every mutex type a condition may be used with.
#include "../transcript.h"

#define ROOM 3

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static pthread_cond_t drained = PTHREAD_COND_INITIALIZER;
static const char *how;
static int inside;
static int broadcast;
static int monotonic;
static int threads;
static int rounds;
static int queue[ROOM];
static int queued;
static int consumed;
static struct transcript transcript;
static unsigned long timeouts[MOST_THREADS];

static void sleep_on(pthread_cond_t *condition, int who)
{
    int error;
    struct timespec until;
    if (is(how, "wait")) {
        error = pthread_cond_wait(condition, &mutex);
    } else if (is(how, "timed")) {
        until = in_microseconds(monotonic ? CLOCK_MONOTONIC : CLOCK_REALTIME, 150);
        error = pthread_cond_timedwait(condition, &mutex, &until);
    } else {
        until = in_microseconds(CLOCK_MONOTONIC, 150);
        error = pthread_cond_clockwait(condition, &mutex, CLOCK_MONOTONIC, &until);
    }
    must_be(error == 0 || error == ETIMEDOUT);
    timeouts[who] += error == ETIMEDOUT;
    note(&transcript, 10 + who);
}

static void wake(pthread_cond_t *condition)
{
    if (broadcast)
        must(pthread_cond_broadcast(condition));
    else
        must(pthread_cond_signal(condition));
}

static void finish(pthread_cond_t *condition)
{
    if (inside) {
        wake(condition);
        must(pthread_mutex_unlock(&mutex));
    } else {
        must(pthread_mutex_unlock(&mutex));
        wake(condition);
    }
    jitter();
}

static void produce(int who, int item)
{
    must(pthread_mutex_lock(&mutex));
    while (queued == ROOM)
        sleep_on(&drained, who);
    queue[queued++] = item;
    note(&transcript, who);
    finish(&filled);
}

static int consume(int who, int total)
{
    must(pthread_mutex_lock(&mutex));
    while (queued == 0 && consumed < total)
        sleep_on(&filled, who);
    if (consumed == total) {
        must(pthread_mutex_unlock(&mutex));
        return 0;
    }
    note(&transcript, queue[--queued]);
    if (++consumed == total)
        must(pthread_cond_broadcast(&filled));
    finish(&drained);
    return 1;
}

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    int producers = threads / 2;
    if (who < producers) {
        for (int round = 0; round < rounds; round++)
            produce(who, 20 + who);
    } else {
        while (consume(who, producers * rounds))
            ;
    }
    return NULL;
}

static void make(const char *kind)
{
    pthread_mutexattr_t attributes;
    must(pthread_mutexattr_init(&attributes));
    if (is(kind, "recursive"))
        must(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE));
    if (is(kind, "errorcheck"))
        must(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK));
    if (is(kind, "adaptive"))
        must(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP));
    if (is(kind, "robust"))
        must(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST));
    if (is(kind, "pi"))
        must(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT));
    must(pthread_mutex_init(&mutex, &attributes));
}

// THREADS ROUNDS wait|timed|clock signal|broadcast inside|outside KIND [monotonic]
int main(int argc, char **argv)
{
    threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 50);
    how = word(argc, argv, 3, "wait");
    broadcast = is(word(argc, argv, 4, "signal"), "broadcast");
    inside = is(word(argc, argv, 5, "inside"), "inside");
    const char *kind = word(argc, argv, 6, "static");
    if (!is(kind, "static"))
        make(kind);
    if (is(word(argc, argv, 7, "realtime"), "monotonic")) {
        monotonic = 1;
        pthread_condattr_t attributes;
        must(pthread_condattr_init(&attributes));
        must(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC));
        must(pthread_cond_init(&filled, &attributes));
        must(pthread_cond_init(&drained, &attributes));
    }
    crew(threads, worker);
    show("order", &transcript);
    for (int who = 0; who < threads; who++)
        printf("timeouts %d %lu\n", who, timeouts[who]);
    must(pthread_cond_destroy(&filled));
    must(pthread_cond_destroy(&drained));
    must(pthread_mutex_destroy(&mutex));
    return 0;
}
