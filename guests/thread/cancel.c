// Deferred cancellation in each kind of place: a condition wait, a semaphore wait,
// a blocking read, a sleep, a join, testcancel. Cleanup handlers lock and note; a
// cancelled condition wait holds its mutex again in the handler.
#include "../transcript.h"
#include <semaphore.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t waited = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t empty;
static int pipe_ends[2];
static pthread_t sleepers[MOST_THREADS];
static const char *where;
static struct transcript transcript;

static void lock_and_note(int what)
{
    must(pthread_mutex_lock(&mutex));
    note(&transcript, what);
    must(pthread_mutex_unlock(&mutex));
}

static void clean(void *argument)
{
    lock_and_note((int)(intptr_t)argument);
    jitter();
    lock_and_note((int)(intptr_t)argument);
}

static void release(void *argument)
{
    must(pthread_mutex_unlock((pthread_mutex_t *)argument));
}

static void block(int who)
{
    char byte;
    if (is(where, "cond")) {
        must(pthread_mutex_lock(&waited));
        pthread_cleanup_push(release, &waited);
        for (;;)
            must(pthread_cond_wait(&never, &waited));
        pthread_cleanup_pop(1);
    } else if (is(where, "timedcond")) {
        must(pthread_mutex_lock(&waited));
        pthread_cleanup_push(release, &waited);
        struct timespec until = in_microseconds(CLOCK_REALTIME, 60L * 1000000);
        for (;;)
            (void)pthread_cond_timedwait(&never, &waited, &until);
        pthread_cleanup_pop(1);
    } else if (is(where, "sem")) {
        sem_wait(&empty);
    } else if (is(where, "read")) {
        must_be(read(pipe_ends[0], &byte, 1) == 1);
    } else if (is(where, "sleep")) {
        sleep(60);
    } else if (is(where, "join")) {
        pthread_join(sleepers[who], NULL);
    } else {
        for (;;) {
            lock_and_note(35);
            pthread_testcancel();
            jitter();
        }
    }
}

static void *worker(void *argument)
{
    int old;
    int who = (int)(intptr_t)argument;
    pthread_cleanup_push(clean, argument);
    must(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old));
    for (int round = 0; round < 5; round++)
        lock_and_note(who);
    must(pthread_setcancelstate(old, NULL));
    block(who);
    pthread_cleanup_pop(0);
    return NULL;
}

static void *sleeping(void *argument)
{
    sleep(60);
    return argument;
}

// THREADS cond|timedcond|sem|read|sleep|join|testcancel
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    where = word(argc, argv, 2, "cond");
    pthread_t ids[MOST_THREADS];
    must_be(sem_init(&empty, 0, 0) == 0);
    must_be(pipe(pipe_ends) == 0);
    for (int who = 0; is(where, "join") && who < threads; who++)
        must(pthread_create(&sleepers[who], NULL, sleeping, NULL));
    for (int who = 0; who < threads; who++)
        must(pthread_create(&ids[who], NULL, worker, (void *)(intptr_t)who));
    for (int who = 0; who < threads; who++) {
        jitter();
        lock_and_note(30);
        must(pthread_cancel(ids[who]));
    }
    int cancelled = 0;
    for (int who = 0; who < threads; who++) {
        void *result;
        must(pthread_join(ids[who], &result));
        cancelled += result == PTHREAD_CANCELED;
    }
    for (int who = 0; is(where, "join") && who < threads; who++) {
        must(pthread_cancel(sleepers[who]));
        must(pthread_join(sleepers[who], NULL));
    }
    show("order", &transcript);
    printf("cancelled %d\n", cancelled);
    return 0;
}
