// Errors that a mutex reports: relocking an error-checking mutex, unlocking one
// that another thread owns, waiting with one that is not the thread's. A failed unlock must leave the true owner's clock alone.
#include "../transcript.h"

static pthread_mutex_t checked = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_mutex_t nested = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static int rounds;
static struct transcript transcript;
static unsigned long wrong_unlocks[MOST_THREADS];

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        if (pthread_mutex_unlock(&checked) == EPERM)
            wrong_unlocks[who]++;
        if (pthread_mutex_unlock(&nested) == EPERM)
            wrong_unlocks[who]++;
        wrong_unlocks[who] += pthread_cond_wait(&never, &checked) == EPERM;
        jitter();
        pthread_mutex_t *mutex = (who + round) % 2 ? &checked : &nested;
        // Both are held for the note: each alone would not protect it.
        must(pthread_mutex_lock(&checked));
        must(pthread_mutex_lock(&nested));
        note(&transcript, who);
        if (mutex == &checked) {
            must_be(pthread_mutex_lock(&checked) == EDEADLK);
            must_be(pthread_mutex_trylock(&checked) == EBUSY);
        }
        must(pthread_mutex_unlock(&nested));
        must(pthread_mutex_unlock(&checked));
        jitter();
    }
    return NULL;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 100);
    crew(threads, worker);
    show("order", &transcript);
    for (int who = 0; who < threads; who++)
        printf("wrong unlocks %d %lu\n", who, wrong_unlocks[who]);
    return 0;
}
