// What threads do that are still there when another one ends the process, and that
// synchronise no more.
#include "twins.h"

static volatile int shared, calm, locked;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t up, never;

static void detached(work how)
{
    pthread_t thread;
    must(pthread_create(&thread, NULL, how, NULL));
    must(pthread_detach(thread));
}

static void *writing_on(void *argument)
{
    post(&up);
    for (;;)
        shared = 1; // race writing_on
    return argument;
}

static void *reading_on(void *argument)
{
    post(&up);
    for (;;)
        calm += shared == 1;
    return argument;
}

static void *locking_on(void *argument)
{
    post(&up);
    for (;;) {
        must(pthread_mutex_lock(&mutex));
        int *block = malloc(100);
        *block = ++locked;
        free(block);
        must(pthread_mutex_unlock(&mutex));
    }
    return argument;
}

static void *writing_and_waiting(void *argument)
{
    post(&up);
    shared = 1; // race writing_and_waiting
    await(&never);
    return argument;
}

static void *writing_and_asleep(void *argument)
{
    post(&up);
    shared = 1; // race writing_and_asleep
    for (;;)
        pause();
    return argument;
}

static void *leaving(void *argument)
{
    await(&up);
    shared = 2; // race leaving
    exit(0);
    return argument;
}

static void reads(void)
{
    calm += shared == 1; // race reads
}

// What runs the handler comes behind its registration, and no further.
static void *writing_and_registering(void *argument)
{
    post(&up);
    shared = 1;
    must_be(atexit(reads) == 0);
    for (;;)
        pause();
    return argument;
}

static void *registering_and_writing(void *argument)
{
    post(&up);
    must_be(atexit(reads) == 0);
    shared = 1; // race registering_and_writing
    for (;;)
        pause();
    return argument;
}

// Long enough that the handler is there, without an order.
static void beside(work how)
{
    detached(how);
    await(&up);
    must_be(usleep(300000) == 0);
}

static void registered(void)
{
    beside(writing_and_registering);
}

static void registered_early(void)
{
    beside(registering_and_writing);
}

// Main returns.
static void returns(void)
{
    detached(writing_on);
    await(&up);
    shared = 2; // race returns
}

static void quick_exit_of_main(void)
{
    detached(writing_on);
    await(&up);
    shared = 2; // race quick_exit_of_main
    _exit(0);
}

// Two of them, and neither of them races with main.
static void among_others(void)
{
    detached(writing_on);
    detached(writing_on);
    await(&up);
    await(&up);
}

static void ordered(void)
{
    shared = 2;
    detached(reading_on);
    await(&up);
}

// The process ends among operations of others.
static void locking(void)
{
    detached(locking_on);
    detached(locking_on);
    await(&up);
    await(&up);
}

static void waiting(void)
{
    detached(writing_and_waiting);
    await(&up);
    shared = 2; // race beside_waiting
}

static void asleep(void)
{
    detached(writing_and_asleep);
    await(&up);
    shared = 2; // race beside_asleep
}

// Main computes when another thread ends the process.
static void main_goes_on(void)
{
    detached(leaving);
    post(&up);
    for (;;)
        shared = 1; // race main_goes_on
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"returns", returns},
        {"quick_exit_of_main", quick_exit_of_main},
        {"among_others", among_others},
        {"ordered", ordered},
        {"locking", locking},
        {"waiting", waiting},
        {"asleep", asleep},
        {"main_goes_on", main_goes_on},
        {"registered", registered},
        {"registered_early", registered_early},
    };
    must_be(sem_init(&up, 0, 0) == 0 && sem_init(&never, 0, 0) == 0);
    for (size_t at = 0; at < sizeof cases / sizeof *cases; at++)
        if (is(cases[at].name, word(argc, argv, 1, "")))
            return cases[at].run(), 0;
    return 98;
}
