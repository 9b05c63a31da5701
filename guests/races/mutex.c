// Mutexes of every kind, taken in every way: what a lock orders, and what it does not.
#include "twins.h"

static pthread_mutex_t mutex, another;
static sem_t first, second;
static volatile int shared;
static int handed;
static int (*take)(pthread_mutex_t *);

static int take_by_try(pthread_mutex_t *it)
{
    int error;
    while ((error = pthread_mutex_trylock(it)) == EBUSY)
        sched_yield();
    return error;
}

static int take_by_timed(pthread_mutex_t *it)
{
    struct timespec until = in_microseconds(CLOCK_REALTIME, 60L * 1000000);
    return pthread_mutex_timedlock(it, &until);
}

static int take_by_clock(pthread_mutex_t *it)
{
    struct timespec until = in_microseconds(CLOCK_MONOTONIC, 60L * 1000000);
    return pthread_mutex_clocklock(it, CLOCK_MONOTONIC, &until);
}

static void *one(void *argument)
{
    must(take(&mutex));
    shared = 1; // race one
    must(pthread_mutex_unlock(&mutex));
    return argument;
}

static void *other(void *argument)
{
    must(take(&mutex));
    shared = 2;
    must(pthread_mutex_unlock(&mutex));
    return argument;
}

static void *other_with_another(void *argument)
{
    must(take(&another));
    shared = 2; // race with_another
    must(pthread_mutex_unlock(&another));
    return argument;
}

static void *other_without(void *argument)
{
    shared = 2; // race without
    return argument;
}

// Behind the unlock, which the lock of the other thread surely follows.
static void *one_late(void *argument)
{
    must(take(&mutex));
    must(pthread_mutex_unlock(&mutex));
    post(&first);
    shared = 1; // race late
    return argument;
}

static void *other_behind(void *argument)
{
    await(&first);
    must(take(&mutex));
    shared = 2; // race behind
    must(pthread_mutex_unlock(&mutex));
    return argument;
}

// Only the mutex stands between the two accesses, neither of which it protects.
static void *one_handing(void *argument)
{
    shared = 1;
    must(take(&mutex));
    handed = 1;
    must(pthread_mutex_unlock(&mutex));
    return argument;
}

static void *other_handed(void *argument)
{
    for (int seen = 0; !seen;) {
        must(take(&mutex));
        seen = handed;
        must(pthread_mutex_unlock(&mutex));
        if (!seen)
            pause_for(100000);
    }
    shared = 2;
    return argument;
}

// Unlocked for the other thread, which holds it, by one that has never had it and knows of no unlock before: nothing but
// time stands before that. The other one released it last, as far as it knows, and learns here that it did not.
static void *one_opening(void *argument)
{
    pause_for(300000000);
    shared = 1;
    must(pthread_mutex_unlock(&mutex));
    return argument;
}

static void *one_opening_early(void *argument)
{
    pause_for(300000000);
    must(pthread_mutex_unlock(&mutex));
    shared = 1; // race opened
    return argument;
}

static void *other_shut(void *argument)
{
    must(take(&mutex));
    must(pthread_mutex_unlock(&mutex));
    must(take(&mutex));
    must(take(&mutex));
    shared = 2; // race let_in
    must(pthread_mutex_unlock(&mutex));
    return argument;
}

// Who did not get the lock learnt nothing from it.
static void *one_holding(void *argument)
{
    must(pthread_mutex_lock(&mutex));
    post(&first);
    shared = 1; // race holding
    await(&second);
    must(pthread_mutex_unlock(&mutex));
    return argument;
}

static void *other_refused(void *argument)
{
    await(&first);
    must_be(pthread_mutex_trylock(&mutex) == EBUSY);
    shared = 2; // race refused
    post(&second);
    return argument;
}

static void *other_timed_out(void *argument)
{
    await(&first);
    struct timespec until = in_microseconds(CLOCK_REALTIME, 1000);
    must_be(pthread_mutex_timedlock(&mutex, &until) == ETIMEDOUT);
    shared = 2; // race timed_out
    post(&second);
    return argument;
}

// The inner unlock of a recursive mutex lets nobody in.
static void *one_deep(void *argument)
{
    must(take(&mutex));
    must(take(&mutex));
    must(pthread_mutex_unlock(&mutex));
    shared = 1;
    must(pthread_mutex_unlock(&mutex));
    return argument;
}

static void *one_dying(void *argument)
{
    must(take(&mutex));
    shared = 1; // race dying
    return argument;
}

// It ends with another mutex than that of the other thread, which it has left.
static void *one_dying_elsewhere(void *argument)
{
    must(take(&another));
    must(take(&mutex));
    must(pthread_mutex_unlock(&mutex));
    post(&first);
    shared = 1; // race dying_elsewhere
    return argument;
}

static void *other_inheriting(void *argument)
{
    int error;
    while ((error = pthread_mutex_lock(&mutex)) != EOWNERDEAD) {
        must(error);
        must(pthread_mutex_unlock(&mutex));
        pause_for(100000);
    }
    shared = 2;
    must(pthread_mutex_consistent(&mutex));
    must(pthread_mutex_unlock(&mutex));
    return argument;
}

static void make(pthread_mutex_t *it, const char *kind)
{
    pthread_mutexattr_t how;
    must(pthread_mutexattr_init(&how));
    if (is(kind, "recursive"))
        must(pthread_mutexattr_settype(&how, PTHREAD_MUTEX_RECURSIVE));
    else if (is(kind, "errorcheck"))
        must(pthread_mutexattr_settype(&how, PTHREAD_MUTEX_ERRORCHECK));
    else if (is(kind, "adaptive"))
        must(pthread_mutexattr_settype(&how, PTHREAD_MUTEX_ADAPTIVE_NP));
    else if (is(kind, "robust"))
        must(pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST));
    else if (is(kind, "pi"))
        must(pthread_mutexattr_setprotocol(&how, PTHREAD_PRIO_INHERIT));
    else if (is(kind, "shared"))
        must(pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED));
    must(pthread_mutex_init(it, &how));
    must(pthread_mutexattr_destroy(&how));
}

// CASE KIND lock|try|timed|clock
int main(int argc, char **argv)
{
    static const struct twins cases[] = {
        {"held", one, other},
        {"different", one, other_with_another},
        {"without", one, other_without},
        {"late", one_late, other_behind},
        {"handed", one_handing, other_handed},
        {"opened", one_opening, other_shut},
        {"opened_early", one_opening_early, other_shut},
        {"refused", one_holding, other_refused},
        {"timed_out", one_holding, other_timed_out},
        {"deep", one_deep, other},
        {"dying", one_dying, other_inheriting},
        {"dying_beside", one_dying, other_without},
        {"dying_elsewhere", one_dying_elsewhere, other_behind},
    };
    const char *kind = word(argc, argv, 2, "normal"), *way = word(argc, argv, 3, "lock");
    take = is(way, "try")     ? take_by_try
           : is(way, "timed") ? take_by_timed
           : is(way, "clock") ? take_by_clock
                              : pthread_mutex_lock;
    make(&mutex, kind);
    make(&another, kind);
    must_be(sem_init(&first, 0, 0) == 0 && sem_init(&second, 0, 0) == 0);
    run_chosen(cases);
    return 0;
}
