// Handlers registered by all threads run in the reverse of the order in which the
// registrations came.
#include "../transcript.h"

#define HANDLER(index) \
    static void handler_##index(void) { printf("handler %d\n", index); }
HANDLER(0) HANDLER(1) HANDLER(2) HANDLER(3) HANDLER(4) HANDLER(5) HANDLER(6) HANDLER(7)

static void (*const handlers[])(void) = {handler_0, handler_1, handler_2, handler_3,
                                         handler_4, handler_5, handler_6, handler_7};

static void by_status(int status, void *argument)
{
    printf("on_exit %d %d\n", status, (int)(intptr_t)argument);
}

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0; round < 6; round++) {
        must_be(atexit(handlers[who % 8]) == 0);
        must_be(on_exit(by_status, argument) == 0);
        jitter();
    }
    return NULL;
}

// THREADS
int main(int argc, char **argv)
{
    crew(number(argc, argv, 1, 4), worker);
    return 4;
}
