// Semaphores: from a post to the wait that it lets through, and no further.
#include "twins.h"
#include <fcntl.h>

static sem_t handed, of_one, of_two, never;
static pthread_barrier_t both;
static volatile int shared;

static void *giver(void *argument)
{
    shared = 1;
    post(&handed);
    return argument;
}

static void *taker(void *argument)
{
    await(&handed);
    shared = 2; // race taken
    return argument;
}

static void *trying_taker(void *argument)
{
    while (sem_trywait(&handed) != 0)
        pause_for(100000);
    shared = 2;
    return argument;
}

static void *timed_taker(void *argument)
{
    struct timespec until = in_microseconds(CLOCK_REALTIME, 60L * 1000000);
    must_be(sem_timedwait(&handed, &until) == 0);
    shared = 2;
    return argument;
}

static void *clock_taker(void *argument)
{
    struct timespec until = in_microseconds(CLOCK_MONOTONIC, 60L * 1000000);
    must_be(sem_clockwait(&handed, CLOCK_MONOTONIC, &until) == 0);
    shared = 2;
    return argument;
}

static void *hasty_giver(void *argument)
{
    post(&handed);
    shared = 1; // race after_post
    return argument;
}

static void *as_a_lock(void *argument)
{
    await(&of_one);
    shared = 1;
    post(&of_one);
    return argument;
}

// Room for two: both are inside before either of them posts.
static void *one_of_two(void *argument)
{
    await(&of_two);
    shared = 1; // race one_of_two
    pthread_barrier_wait(&both);
    post(&of_two);
    return argument;
}

static void *other_of_two(void *argument)
{
    await(&of_two);
    shared = 2; // race other_of_two
    pthread_barrier_wait(&both);
    post(&of_two);
    return argument;
}

static void *one_unheard(void *argument)
{
    shared = 1; // race unheard
    post(&handed);
    return argument;
}

static void *other_refused(void *argument)
{
    must_be(sem_trywait(&never) != 0 && errno == EAGAIN);
    struct timespec until = in_microseconds(CLOCK_REALTIME, 500);
    must_be(sem_timedwait(&never, &until) != 0 && errno == ETIMEDOUT);
    shared = 2; // race refused
    return argument;
}

// By name: two handles of one semaphore.
static void *named_giver(void *argument)
{
    sem_t *named = sem_open(argument, O_CREAT, 0600, 0);
    must_be(named != SEM_FAILED);
    shared = 1;
    post(named);
    must_be(sem_close(named) == 0);
    return argument;
}

static void *named_taker(void *argument)
{
    sem_t *named = sem_open(argument, O_CREAT, 0600, 0);
    must_be(named != SEM_FAILED);
    await(named);
    shared = 2;
    must_be(sem_close(named) == 0);
    return argument;
}

int main(int argc, char **argv)
{
    static const struct twins cases[] = {
        {"wait", giver, taker},
        {"try", giver, trying_taker},
        {"timed", giver, timed_taker},
        {"clock", giver, clock_taker},
        {"after_post", hasty_giver, taker},
        {"as_a_lock", as_a_lock, as_a_lock},
        {"room_for_two", one_of_two, other_of_two},
        {"refused", one_unheard, other_refused},
    };
    must_be(sem_init(&handed, 0, 0) == 0 && sem_init(&of_one, 0, 1) == 0);
    must_be(sem_init(&of_two, 0, 2) == 0 && sem_init(&never, 0, 0) == 0);
    must(pthread_barrier_init(&both, NULL, 2));
    if (is(word(argc, argv, 1, ""), "named")) {
        char name[40];
        snprintf(name, sizeof name, "/relive-races-%d", (int)getpid());
        side_by_side(named_giver, named_taker, name);
        must_be(sem_unlink(name) == 0);
        return 0;
    }
    run_chosen(cases);
    return 0;
}
