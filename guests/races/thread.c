// Threads created, joined, detached, ended: where their edges begin and end.
#include "twins.h"

static volatile int shared;
static sem_t done, go;
static pthread_t inner;

static void *writer(void *argument)
{
    shared = 1; // race writer
    return argument;
}

static void *another(void *argument)
{
    shared = 2; // race another
    return argument;
}

static void *exiting(void *argument)
{
    shared = 1; // race exiting
    pthread_exit(argument);
}

static void *reporting(void *argument)
{
    shared = 1; // race reporting
    post(&done);
    return argument;
}

static void *told(void *argument)
{
    await(&go);
    shared = 1;
    return argument;
}

static void *late(void *argument)
{
    await(&go);
    shared = 1; // race late
    return argument;
}

static pthread_t detached(work how)
{
    pthread_attr_t attributes;
    pthread_t thread;
    must(pthread_attr_init(&attributes));
    must(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED));
    must(pthread_create(&thread, &attributes, how, NULL));
    must(pthread_attr_destroy(&attributes));
    return thread;
}

static void before_create(void)
{
    shared = 3;
    ended(started(writer));
}

static void after_create(void)
{
    pthread_t thread = started(writer);
    shared = 3; // race after_create
    ended(thread);
}

static void after_join(void)
{
    ended(started(writer));
    shared = 3;
}

static void after_exit(void)
{
    ended(started(exiting));
    shared = 3;
}

static void before_exit(void)
{
    pthread_t thread = started(exiting);
    shared = 3; // race before_exit
    ended(thread);
}

// The first one was joined before the second one began.
static void one_by_one(void)
{
    ended(started(writer));
    ended(started(another));
}

static void both_at_once(void)
{
    pthread_t first = started(writer), second = started(another);
    ended(first);
    ended(second);
}

// What main did between two creations is before the second thread, and beside the first.
static void between_creations(void)
{
    pthread_t first = started(writer);
    shared = 3; // race between_creations
    pthread_t second = started(idle);
    ended(second);
    ended(first);
}

static void *parent(void *argument)
{
    shared = 2;
    ended(started(writer));
    shared = 3;
    return argument;
}

static void grandchild(void)
{
    ended(started(parent));
    shared = 4;
}

static void *parent_that_leaves(void *argument)
{
    inner = started(writer);
    return argument;
}

// The child ended, its own child need not have.
static void orphan(void)
{
    ended(started(parent_that_leaves));
    shared = 3; // race beside_orphan
    ended(inner);
}

static void orphan_joined(void)
{
    ended(started(parent_that_leaves));
    ended(inner);
    shared = 3;
}

static void *joiner(void *argument)
{
    ended(inner);
    return argument;
}

static void joined_by_another(void)
{
    inner = started(writer);
    ended(started(joiner));
    shared = 3;
}

static void join_by_try(void)
{
    pthread_t thread = started(writer);
    while (pthread_tryjoin_np(thread, NULL) != 0)
        pause_for(100000);
    shared = 3;
}

static void join_by_timed(void)
{
    pthread_t thread = started(writer);
    struct timespec until = in_microseconds(CLOCK_REALTIME, 60L * 1000000);
    must(pthread_timedjoin_np(thread, NULL, &until));
    shared = 3;
}

static void join_by_clock(void)
{
    pthread_t thread = started(writer);
    struct timespec until = in_microseconds(CLOCK_MONOTONIC, 60L * 1000000);
    must(pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until));
    shared = 3;
}

// A join that failed tells nothing.
static void join_refused(void)
{
    pthread_t thread = started(late);
    must_be(pthread_tryjoin_np(thread, NULL) == EBUSY);
    post(&go);
    shared = 3; // race not_joined
    ended(thread);
}

static void detached_beside(void)
{
    detached(reporting);
    shared = 3; // race beside_detached
    await(&done);
}

static void detached_waited(void)
{
    detached(reporting);
    await(&done);
    shared = 3;
}

static void detached_later(void)
{
    pthread_t thread = started(reporting);
    must(pthread_detach(thread));
    shared = 3; // race detached_later
    await(&done);
}

static void clean(void *argument)
{
    (void)argument;
    shared = 1; // race cleanup
}

static void *cancelled(void *argument)
{
    pthread_cleanup_push(clean, NULL);
    for (;;)
        pause();
    pthread_cleanup_pop(0);
    return argument;
}

static void cancel_joined(void)
{
    pthread_t thread = started(cancelled);
    must(pthread_cancel(thread));
    ended(thread);
    shared = 3;
}

static void cancel_beside(void)
{
    pthread_t thread = started(cancelled);
    must(pthread_cancel(thread));
    shared = 3; // race beside_cleanup
    ended(thread);
}

static void told_by_post(void)
{
    pthread_t thread = started(told);
    shared = 3;
    post(&go);
    ended(thread);
}

// Main ends as a thread, the process goes on.
static void main_leaves(void)
{
    detached(writer);
    shared = 3; // race leaving
    pthread_exit(NULL);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"before_create", before_create},
        {"after_create", after_create},
        {"after_join", after_join},
        {"after_exit", after_exit},
        {"before_exit", before_exit},
        {"one_by_one", one_by_one},
        {"both_at_once", both_at_once},
        {"between_creations", between_creations},
        {"grandchild", grandchild},
        {"orphan", orphan},
        {"orphan_joined", orphan_joined},
        {"joined_by_another", joined_by_another},
        {"join_by_try", join_by_try},
        {"join_by_timed", join_by_timed},
        {"join_by_clock", join_by_clock},
        {"join_refused", join_refused},
        {"detached_beside", detached_beside},
        {"detached_waited", detached_waited},
        {"detached_later", detached_later},
        {"cancel_joined", cancel_joined},
        {"cancel_beside", cancel_beside},
        {"told_by_post", told_by_post},
        {"main_leaves", main_leaves},
    };
    must_be(sem_init(&done, 0, 0) == 0 && sem_init(&go, 0, 0) == 0);
    for (size_t at = 0; at < sizeof cases / sizeof *cases; at++)
        if (is(cases[at].name, word(argc, argv, 1, "")))
            return cases[at].run(), 0;
    return 98;
}
