// Create and every way to end and to wait for a thread. Failed tryjoins and
// timedjoins are values; a detached thread shows its end under the mutex.
#include "../transcript.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gone = PTHREAD_COND_INITIALIZER;
static struct transcript transcript;
static int left;

static void lock_and_note(int what)
{
    must(pthread_mutex_lock(&mutex));
    note(&transcript, what);
    must(pthread_mutex_unlock(&mutex));
}

static void work(int who)
{
    for (int round = 0; round < 5; round++) {
        jitter();
        lock_and_note(who);
    }
}

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    work(who);
    if (who % 2)
        pthread_exit(argument);
    return argument;
}

static void *detached(void *argument)
{
    if ((intptr_t)argument % 2)
        must(pthread_detach(pthread_self()));
    work((int)(intptr_t)argument);
    must(pthread_mutex_lock(&mutex));
    left--;
    must(pthread_cond_signal(&gone));
    must(pthread_mutex_unlock(&mutex));
    return NULL;
}

static unsigned long wait_for(pthread_t id, const char *how, void **result)
{
    unsigned long failures = 0;
    int error;
    do {
        struct timespec until;
        if (is(how, "tryjoin")) {
            error = pthread_tryjoin_np(id, result);
        } else if (is(how, "timedjoin")) {
            until = in_microseconds(CLOCK_REALTIME, 30);
            error = pthread_timedjoin_np(id, result, &until);
        } else if (is(how, "clockjoin")) {
            until = in_microseconds(CLOCK_MONOTONIC, 30);
            error = pthread_clockjoin_np(id, result, CLOCK_MONOTONIC, &until);
        } else {
            error = pthread_join(id, result);
        }
        must_be(error == 0 || error == EBUSY || error == ETIMEDOUT);
        if (error != 0) {
            failures++;
            lock_and_note(35);
            pause_for(10000);
        }
    } while (error != 0);
    return failures;
}

static void detach_all(int threads)
{
    pthread_attr_t attributes;
    must(pthread_attr_init(&attributes));
    must(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED));
    left = threads;
    for (int who = 0; who < threads; who++) {
        pthread_t id;
        must(pthread_create(&id, who % 2 ? NULL : &attributes, detached, (void *)(intptr_t)who));
    }
    must(pthread_mutex_lock(&mutex));
    while (left > 0)
        must(pthread_cond_wait(&gone, &mutex));
    must(pthread_mutex_unlock(&mutex));
}

// THREADS join|tryjoin|timedjoin|clockjoin|detach
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    const char *how = word(argc, argv, 2, "join");
    pthread_t ids[MOST_THREADS];
    unsigned long failures = 0;
    for (int generation = 0; generation < 5; generation++) {
        if (is(how, "detach")) {
            detach_all(threads);
            continue;
        }
        for (int who = 0; who < threads; who++)
            must(pthread_create(&ids[who], NULL, worker, (void *)(intptr_t)who));
        for (int who = threads - 1; who >= 0; who--) {
            void *result;
            failures += wait_for(ids[who], how, &result);
            must_be((intptr_t)result == who);
        }
    }
    must(pthread_mutex_lock(&mutex));
    show("order", &transcript);
    must(pthread_mutex_unlock(&mutex));
    printf("failures %lu\n", failures);
    return 0;
}
