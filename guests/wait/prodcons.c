// Producers and consumers over a ring: two counting semaphores and two mutexes.
#include "../transcript.h"
#include <semaphore.h>

#define ROOM 4

static sem_t empty;
static sem_t full;
static pthread_mutex_t in = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t out = PTHREAD_MUTEX_INITIALIZER;
static int ring[ROOM];
static unsigned head;
static unsigned tail;
static int pairs;
static int rounds;
static struct transcript produced;
static struct transcript consumed;
static struct transcript takers;

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        if (who < pairs) {
            must_be(sem_wait(&empty) == 0);
            must(pthread_mutex_lock(&in));
            ring[head++ % ROOM] = who;
            note(&produced, who);
            must(pthread_mutex_unlock(&in));
            must_be(sem_post(&full) == 0);
        } else {
            must_be(sem_wait(&full) == 0);
            must(pthread_mutex_lock(&out));
            note(&consumed, ring[tail++ % ROOM]);
            note(&takers, who);
            must(pthread_mutex_unlock(&out));
            must_be(sem_post(&empty) == 0);
        }
        jitter();
    }
    return NULL;
}

// THREADS (even) ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    pairs = threads / 2;
    rounds = number(argc, argv, 2, 100);
    must_be(sem_init(&empty, 0, ROOM) == 0);
    must_be(sem_init(&full, 0, 0) == 0);
    crew(pairs * 2, worker);
    show("produced", &produced);
    show("consumed", &consumed);
    show("takers", &takers);
    return 0;
}
