// C11 threads.h: mtx of each type, cnd, call_once, tss with destructors, thrd.
#include "../transcript.h"
#include <threads.h>

static mtx_t mutex;
static cnd_t turn;
static once_flag flags[8] = {ONCE_FLAG_INIT, ONCE_FLAG_INIT, ONCE_FLAG_INIT, ONCE_FLAG_INIT,
                             ONCE_FLAG_INIT, ONCE_FLAG_INIT, ONCE_FLAG_INIT, ONCE_FLAG_INIT};
static tss_t slot;
static const char *how;
static int rounds;
static int timed;
static int passed;
static struct transcript transcript;
static unsigned long failures[MOST_THREADS];
static _Thread_local int self;

static void take(int way)
{
    struct timespec until;
    int result;
    do {
        if (way == 0) {
            result = mtx_lock(&mutex);
        } else if (way == 1) {
            result = mtx_trylock(&mutex);
        } else {
            until = in_microseconds(CLOCK_REALTIME, 20);
            result = mtx_timedlock(&mutex, &until);
        }
        if (result != thrd_success) {
            must_be(result == thrd_busy || result == thrd_timedout);
            failures[self]++;
            jitter();
        }
    } while (result != thrd_success);
}

static void leave(void *value)
{
    take(0);
    note(&transcript, 100 + *(int *)value);
    must_be(mtx_unlock(&mutex) == thrd_success);
    free(value);
}

static void first(void)
{
    take(0);
    note(&transcript, 200 + self);
    must_be(mtx_unlock(&mutex) == thrd_success);
}

// Waits until the others have moved `passed` on, or for a while.
static void wait_for_others(void)
{
    take(0);
    int target = passed + 1;
    passed++;
    must_be(cnd_broadcast(&turn) == thrd_success);
    for (int tries = 0; passed <= target && tries < 2; tries++) {
        struct timespec until = in_microseconds(CLOCK_REALTIME, 200);
        int result = cnd_timedwait(&turn, &mutex, &until);
        must_be(result == thrd_success || result == thrd_timedout);
        note(&transcript, 300 + self * 2 + (result == thrd_timedout));
    }
    must_be(mtx_unlock(&mutex) == thrd_success);
}

static int worker(void *argument)
{
    self = (int)(intptr_t)argument;
    int *value = (int *)malloc(sizeof *value);
    *value = self;
    must_be(tss_set(slot, value) == thrd_success);
    for (int round = 0; round < rounds; round++) {
        call_once(&flags[(self + round) % 8], first);
        take(is(how, "lock") ? 0 : is(how, "try") ? 1 : is(how, "timed") ? 2 : (self + round) % (timed ? 3 : 2));
        note(&transcript, self);
        must_be(mtx_unlock(&mutex) == thrd_success);
        if (round % 10 == 0)
            wait_for_others();
        jitter();
    }
    if (self % 2)
        thrd_exit(self);
    return self;
}

// THREADS ROUNDS plain|timed|recursive lock|try|timed|mixed
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    thrd_t ids[MOST_THREADS];
    rounds = number(argc, argv, 2, 50);
    const char *kind = word(argc, argv, 3, "plain");
    how = word(argc, argv, 4, "lock");
    timed = is(kind, "timed");
    must_be(mtx_init(&mutex, timed ? mtx_timed : is(kind, "recursive") ? mtx_plain | mtx_recursive : mtx_plain) == thrd_success);
    must_be(cnd_init(&turn) == thrd_success);
    must_be(tss_create(&slot, leave) == thrd_success);
    for (int who = 0; who < threads; who++)
        must_be(thrd_create(&ids[who], worker, (void *)(intptr_t)who) == thrd_success);
    for (int who = 0; who < threads; who++) {
        int result = -1;
        must_be(thrd_join(ids[who], &result) == thrd_success);
        must_be(result == who);
    }
    show("order", &transcript);
    for (int who = 0; who < threads; who++)
        printf("failures %d %lu\n", who, failures[who]);
    cnd_destroy(&turn);
    mtx_destroy(&mutex);
    return 0;
}
