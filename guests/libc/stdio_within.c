// Streams are locked within the program's own mutexes, each of which has threads of its
// own, while others wait for the stream: what the kernel is asked for to wake them says
// nothing to the program. Meanwhile one thread writes to a pipe, which may let others go on.
#include "../transcript.h"

static pthread_mutex_t mutexes[MOST_THREADS];
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;
static int rounds;
static int threads;
static int ends[2];

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    if (who == threads) {
        char byte = 'x';
        for (int round = 0; round < rounds * threads; round++) {
            must_be(write(ends[1], &byte, 1) == 1);
            must_be(read(ends[0], &byte, 1) == 1);
        }
        return NULL;
    }
    for (int round = 0; round < rounds; round++) {
        must(pthread_mutex_lock(&mutexes[who]));
        flockfile(stdout);
        pause_for(1000);
        funlockfile(stdout);
        must(pthread_mutex_unlock(&mutexes[who]));
        must(pthread_mutex_lock(&order));
        note(&transcript, who);
        must(pthread_mutex_unlock(&order));
    }
    return NULL;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 40);
    must_be(pipe(ends) == 0);
    for (int which = 0; which < threads; which++)
        must(pthread_mutex_init(&mutexes[which], NULL));
    crew(threads + 1, worker);
    show("order", &transcript);
    return 0;
}
