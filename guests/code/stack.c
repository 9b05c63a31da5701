// Functions within functions: the compiler writes a piece of code for each to the
// stack, where the next call writes another.
#include "code.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;
static int rounds;

static __attribute__((noinline)) unsigned apply(unsigned (*what)(unsigned), unsigned argument)
{
    return what(argument);
}

static __attribute__((noinline)) unsigned sum(unsigned depth, unsigned value)
{
    unsigned seen = 0;
    unsigned add(unsigned argument)
    {
        seen++;
        return argument + value + depth;
    }
    unsigned first = apply(add, 1);
    unsigned below = depth == 0 ? 0 : sum(depth - 1, value);
    must_be(apply(add, 2) == first + 1 && seen == 2);
    return first + below;
}

static void *worker(void *argument)
{
    unsigned who = (unsigned)(intptr_t)argument;
    for (unsigned round = 0; round < (unsigned)rounds; round++) {
        unsigned depth = round % 5;
        must_be(sum(depth, round) == (depth + 1) * (round + 1) + depth * (depth + 1) / 2);
        must(pthread_mutex_lock(&mutex));
        note(&transcript, who);
        must(pthread_mutex_unlock(&mutex));
        jitter();
    }
    return NULL;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 2);
    rounds = number(argc, argv, 2, 50);
    crew(threads, worker);
    show("stack", &transcript);
    return 0;
}
