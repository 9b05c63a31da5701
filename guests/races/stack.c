// Variables on stacks: lent to other threads, and stacks that serve one thread after another.
#include "twins.h"

#define CHILDREN 20

static sem_t is_gone[2];
static pthread_barrier_t both;

static void *borrower(void *argument)
{
    *(volatile int *)argument = 1; // race borrower
    return NULL;
}

static void lent(void)
{
    volatile int local = 0;
    pthread_t thread;
    must(pthread_create(&thread, NULL, borrower, (void *)&local));
    local = 2; // race lender
    must(pthread_join(thread, NULL));
}

static void lent_and_returned(void)
{
    volatile int local = 0;
    pthread_t thread;
    must(pthread_create(&thread, NULL, borrower, (void *)&local));
    must(pthread_join(thread, NULL));
    local = 2;
}

// Between two threads, of which neither is the owner.
static void *second_borrower(void *argument)
{
    *(volatile int *)argument = 2; // race second_borrower
    return NULL;
}

static void lent_to_two(void)
{
    volatile int local = 0;
    side_by_side(borrower, second_borrower, (void *)&local);
}

// Another function's variables come to lie where the lent one was.
__attribute__((noinline)) static void other_frame(void)
{
    volatile int many[64];
    for (int at = 0; at < 64; at++)
        many[at] = at;
    (void)many[0];
}

__attribute__((noinline)) static void lending_frame(void)
{
    volatile int many[64];
    many[32] = 0;
    pthread_t thread;
    must(pthread_create(&thread, NULL, borrower, (void *)&many[32]));
    must(pthread_join(thread, NULL));
}

static void frames(void)
{
    lending_frame();
    other_frame();
}

// Each uses much of its stack, posts and is gone; libc gives the stack to the next thread, whoever creates it.
static void *short_lived(void *argument)
{
    volatile char many[4000];
    for (size_t at = 0; at < sizeof many; at++)
        many[at] = 1;
    post(argument);
    return NULL;
}

static void *creator(void *argument)
{
    sem_t *own = argument;
    pthread_attr_t attributes;
    must(pthread_attr_init(&attributes));
    must(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED));
    pthread_barrier_wait(&both);
    for (int child = 0; child < CHILDREN; child++) {
        pthread_t thread;
        must(pthread_create(&thread, &attributes, short_lived, own));
        await(own);
    }
    must(pthread_attr_destroy(&attributes));
    return NULL;
}

static void reused(void)
{
    pthread_t threads[2];
    for (int which = 0; which < 2; which++) {
        must_be(sem_init(&is_gone[which], 0, 0) == 0);
        must(pthread_create(&threads[which], NULL, creator, &is_gone[which]));
    }
    for (int which = 0; which < 2; which++)
        must(pthread_join(threads[which], NULL));
}

int main(int argc, char **argv)
{
    const char *name = word(argc, argv, 1, "");
    must(pthread_barrier_init(&both, NULL, 2));
    if (is(name, "lent"))
        lent();
    else if (is(name, "returned"))
        lent_and_returned();
    else if (is(name, "lent_to_two"))
        lent_to_two();
    else if (is(name, "frames"))
        frames();
    else if (is(name, "reused"))
        reused();
    else
        return 98;
    return 0;
}
