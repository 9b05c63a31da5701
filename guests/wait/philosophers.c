// Dining philosophers: a fork is a mutex, taken in ascending order.
#include "../transcript.h"

static pthread_mutex_t forks[MOST_THREADS];
static struct transcript plates[MOST_THREADS];
static int threads;
static int rounds;

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    int next = (who + 1) % threads;
    int low = who < next ? who : next;
    int high = who < next ? next : who;
    for (int round = 0; round < rounds; round++) {
        must(pthread_mutex_lock(&forks[low]));
        must(pthread_mutex_lock(&forks[high]));
        note(&plates[low], who);
        note(&plates[high], who);
        must(pthread_mutex_unlock(&forks[high]));
        must(pthread_mutex_unlock(&forks[low]));
        jitter();
    }
    return NULL;
}

// THREADS (2 or more) ROUNDS
int main(int argc, char **argv)
{
    threads = number(argc, argv, 1, 5);
    rounds = number(argc, argv, 2, 100);
    for (int fork = 0; fork < threads; fork++)
        must(pthread_mutex_init(&forks[fork], NULL));
    crew(threads, worker);
    for (int plate = 0; plate < threads; plate++)
        show("plate", &plates[plate]);
    return 0;
}
