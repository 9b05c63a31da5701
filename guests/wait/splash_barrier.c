// The barrier of Splash-3's default macros: each arrival but the last calls
// pthread_cond_wait once, without a loop around it. It works because nothing
// wakes a waiter but the broadcast; a tool that adds a wake-up breaks it.
#include "../transcript.h"

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    int arrived;
} barrier = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};

static int threads;
static int rounds;
static int slots[MOST_THREADS];
static struct transcript arrivals;
static struct transcript departures;

static void meet(int who)
{
    must(pthread_mutex_lock(&barrier.mutex));
    note(&arrivals, who);
    if (++barrier.arrived != threads) {
        must(pthread_cond_wait(&barrier.condition, &barrier.mutex));
    } else {
        barrier.arrived = 0;
        must(pthread_cond_broadcast(&barrier.condition));
    }
    note(&departures, who);
    must(pthread_mutex_unlock(&barrier.mutex));
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
    crew(threads, worker);
    show("arrivals", &arrivals);
    show("departures", &departures);
    return 0;
}
