// More threads than a barrier has parties, and who comes next waits next: some
// arrive at a round while others have yet to depart from the one before. Nobody
// may depart before his round is complete.
#include "../transcript.h"

static pthread_barrier_t barrier;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int parties;
static int waits;
static int begun, arrived, departed;
static struct transcript order;

// Whether there is one wait more: in all a multiple of the parties, so that nobody is left alone.
static int comes(void)
{
    must(pthread_mutex_lock(&lock));
    int one_more = begun < waits;
    begun += one_more;
    must(pthread_mutex_unlock(&lock));
    return one_more;
}

static void *worker(void *argument)
{
    while (comes()) {
        jitter();
        must(pthread_mutex_lock(&lock));
        arrived++;
        must(pthread_mutex_unlock(&lock));
        int result = pthread_barrier_wait(&barrier);
        must_be(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
        must(pthread_mutex_lock(&lock));
        departed++;
        must_be(departed <= arrived / parties * parties);
        note(&order, (uint64_t)(intptr_t)argument);
        must(pthread_mutex_unlock(&lock));
    }
    return NULL;
}

// THREADS PARTIES ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 5);
    parties = number(argc, argv, 2, 2);
    waits = parties * number(argc, argv, 3, 200);
    must(pthread_barrier_init(&barrier, NULL, parties));
    crew(threads, worker);
    must(pthread_barrier_destroy(&barrier));
    show("order", &order);
    return 0;
}
