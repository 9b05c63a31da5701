// Jumps out of functions that hold a lock, and recursion with one.
#include "twins.h"
#include <setjmp.h>
#include <signal.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static volatile int shared;
static sem_t first;
static __thread jmp_buf place;
static __thread sigjmp_buf signal_place;

__attribute__((noinline, noreturn)) static void leave_with_lock(int value)
{
    must(pthread_mutex_lock(&mutex));
    shared = value;
    longjmp(place, 1);
}

// The jump leaves the lock held.
static void *jumper(void *argument)
{
    for (volatile int round = 0; round < 20; round++) {
        if (setjmp(place) == 0)
            leave_with_lock(round);
        shared = round;
        must(pthread_mutex_unlock(&mutex));
    }
    return argument;
}

static void *one_past(void *argument)
{
    if (setjmp(place) == 0) {
        must(pthread_mutex_lock(&mutex));
        must(pthread_mutex_unlock(&mutex));
        longjmp(place, 1);
    }
    post(&first);
    shared = 1; // race jumped
    return argument;
}

static void *other_locking(void *argument)
{
    await(&first);
    must(pthread_mutex_lock(&mutex));
    shared = 2; // race locked
    must(pthread_mutex_unlock(&mutex));
    return argument;
}

static void jump_out(int number)
{
    (void)number;
    siglongjmp(signal_place, 1);
}

static void *one_out_of_handler(void *argument)
{
    if (sigsetjmp(signal_place, 1) == 0)
        must_be(raise(SIGUSR1) == 0);
    shared = 1; // race out_of_handler
    return argument;
}

static void *other(void *argument)
{
    shared = 2; // race other
    return argument;
}

__attribute__((noinline)) static void descend(int depth)
{
    must(pthread_mutex_lock(&recursive));
    if (depth > 0)
        descend(depth - 1);
    shared = depth;
    must(pthread_mutex_unlock(&recursive));
}

static void *descending(void *argument)
{
    for (int round = 0; round < 5; round++)
        descend(20);
    return argument;
}

int main(int argc, char **argv)
{
    static const struct twins cases[] = {
        {"with_lock", jumper, jumper},
        {"past_lock", one_past, other_locking},
        {"out_of_handler", one_out_of_handler, other},
        {"recursion", descending, descending},
    };
    must_be(sem_init(&first, 0, 0) == 0);
    must_be(signal(SIGUSR1, jump_out) != SIG_ERR);
    run_chosen(cases);
    return 0;
}
