// Generators with one hidden state and an inner lock: who draws which number.
#include "../transcript.h"

static int rounds;
static uint64_t drawn[MOST_THREADS];

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        drawn[who] = fold(drawn[who], rand());
        drawn[who] = fold(drawn[who], random());
        jitter();
    }
    return NULL;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 200);
    srand(1987);
    crew(threads, worker);
    for (int who = 0; who < threads; who++)
        printf("drawn %d %016llx\n", who, (unsigned long long)drawn[who]);
    return 0;
}
