// A barrier: who gets the SERIAL value is noted by that thread, of which there is
// one a phase; the slots written before it are read by all behind it.
#include "../transcript.h"

static pthread_barrier_t barrier;
static int threads;
static int rounds;
static int slots[MOST_THREADS];
static struct transcript serial;

static void meet(int who)
{
    int result = pthread_barrier_wait(&barrier);
    if (result == PTHREAD_BARRIER_SERIAL_THREAD)
        note(&serial, who);
    else
        must(result);
}

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        slots[who] = round;
        jitter();
        meet(who);
        for (int other = 0; other < threads; other++)
            must_be(slots[other] == round);
        meet(who);
    }
    return NULL;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 50);
    must(pthread_barrier_init(&barrier, NULL, threads));
    crew(threads, worker);
    must(pthread_barrier_destroy(&barrier));
    show("serial", &serial);
    return 0;
}
