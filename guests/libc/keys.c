// Threads make and delete keys of thread-specific data: who gets which number is
// decided inside the C library.
#include "../transcript.h"

static int rounds;
static uint64_t got[MOST_THREADS];

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        pthread_key_t keys[4];
        for (int key = 0; key < 4; key++) {
            must(pthread_key_create(&keys[key], NULL));
            got[who] = fold(got[who], keys[key]);
            jitter();
        }
        for (int key = 0; key < 4; key++)
            must(pthread_key_delete(keys[key]));
    }
    return NULL;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 50);
    crew(threads, worker);
    for (int who = 0; who < threads; who++)
        printf("keys %d %016llx\n", who, (unsigned long long)got[who]);
    return 0;
}
