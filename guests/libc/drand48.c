// The drand48 family has one hidden state and no lock at all in this C library, so
// calls from several threads are a data race by the letter; each draw here is under
// a mutex, and the draws of lrand48 and drand48 share the state.
#include "../transcript.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int rounds;
static uint64_t drawn[MOST_THREADS];

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        must(pthread_mutex_lock(&mutex));
        drawn[who] = fold(drawn[who], lrand48());
        drawn[who] = fold(drawn[who], (uint64_t)(drand48() * 1e15));
        must(pthread_mutex_unlock(&mutex));
        jitter();
    }
    return NULL;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 200);
    // What it draws follows from the state alone, as another function of the family tells.
    unsigned short state[3] = {0x330e, 1994, 0};
    srand48(1994);
    for (int draw = 0; draw < 10; draw++)
        must_be(drand48() == erand48(state));
    crew(threads, worker);
    for (int who = 0; who < threads; who++)
        printf("drawn %d %016llx\n", who, (unsigned long long)drawn[who]);
    return 0;
}
