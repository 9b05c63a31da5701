// Before main and after it: constructors, functions of atexit, destructors.
#include "twins.h"

static volatile int early, late, very_late;
static sem_t written, written_very_late;
static pthread_t starter;
static const char *which;

static void *beside_constructor(void *argument)
{
    early = 1; // race beside_constructor
    return argument;
}

// Arguments come to constructors as well.
__attribute__((constructor)) static void construct(int argc, char **argv)
{
    which = word(argc, argv, 1, "");
    if (is(which, "constructor")) {
        must(pthread_create(&starter, NULL, beside_constructor, NULL));
        early = 2; // race constructor
    } else if (is(which, "constructor_joined")) {
        must(pthread_create(&starter, NULL, beside_constructor, NULL));
        must(pthread_join(starter, NULL));
        early = 2;
    }
}

static void *beside_atexit(void *argument)
{
    late = 1; // race beside_atexit
    post(&written);
    return argument;
}

static void *beside_destructor(void *argument)
{
    very_late = 1; // race beside_destructor
    post(&written_very_late);
    return argument;
}

static void at_exit(void)
{
    late = 2; // race at_exit
    await(&written);
}

static void at_exit_in_order(void)
{
    await(&written);
    late = 2;
}

__attribute__((destructor)) static void destroy(void)
{
    if (is(which, "destructor")) {
        very_late = 2; // race destructor
        await(&written_very_late);
    } else if (is(which, "destructor_waits")) {
        await(&written_very_late);
        very_late = 2;
    }
}

static void detached(work how)
{
    pthread_t thread;
    must(pthread_create(&thread, NULL, how, NULL));
    must(pthread_detach(thread));
}

int main(void)
{
    must_be(sem_init(&written, 0, 0) == 0 && sem_init(&written_very_late, 0, 0) == 0);
    if (is(which, "constructor")) {
        must(pthread_join(starter, NULL));
    } else if (is(which, "atexit")) {
        must(atexit(at_exit));
        detached(beside_atexit);
    } else if (is(which, "atexit_waits")) {
        must(atexit(at_exit_in_order));
        detached(beside_atexit);
    } else if (strncmp(which, "destructor", 10) == 0) {
        detached(beside_destructor);
    }
    return 0;
}
