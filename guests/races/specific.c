// Thread-specific data: destructors run in the thread that ends, before it is joined.
#include "twins.h"

static pthread_key_t key;
static volatile int shared;

static void destroy(void *value)
{
    *(volatile int *)value = 1; // race destroyed
}

static void *holder(void *argument)
{
    must(pthread_setspecific(key, (void *)&shared));
    return argument;
}

// Each thread its own value under the same key.
static void *own(void *argument)
{
    volatile int *mine = malloc(sizeof *mine);
    must_be(mine != NULL);
    must(pthread_setspecific(key, (void *)mine));
    for (int round = 0; round < 10; round++)
        *(volatile int *)pthread_getspecific(key) = round;
    return argument;
}

int main(int argc, char **argv)
{
    const char *name = word(argc, argv, 1, "");
    pthread_t thread;
    if (is(name, "own")) {
        must(pthread_key_create(&key, free));
        side_by_side(own, own, NULL);
        return 0;
    }
    must(pthread_key_create(&key, destroy));
    must(pthread_create(&thread, NULL, holder, NULL));
    if (is(name, "not_joined"))
        shared = 2; // race not_joined
    must(pthread_join(thread, NULL));
    shared = 3;
    return 0;
}
