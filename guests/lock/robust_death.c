// Threads die while they own a robust mutex. Whoever comes next gets EOWNERDEAD
// and must also be ordered after the last thing the dead owner did. With the word
// `lost`, the one that inherits it does not repair it: later ones get ENOTRECOVERABLE. With
// `waiting`, those who come next wait in a condition with it, one after the other.
#include "../transcript.h"

static pthread_mutex_t mutex;
static pthread_mutex_t other = PTHREAD_MUTEX_INITIALIZER;
static int rounds;
static int lost;
static struct transcript transcript;
static struct transcript aside;
static unsigned long unrecoverable[MOST_THREADS];

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        jitter();
        int error = pthread_mutex_lock(&mutex);
        if (error == ENOTRECOVERABLE) {
            unrecoverable[who]++;
            continue;
        }
        must_be(error == 0 || error == EOWNERDEAD);
        note(&transcript, who * 2 + (error == EOWNERDEAD));
        if (error == EOWNERDEAD && !lost)
            must(pthread_mutex_consistent(&mutex));
        if (error == 0 && round == rounds / 2 && who % 2 == 0) {
            // Events after the last lock: the successor's join with the dead
            // owner's final clock covers them.
            for (int more = 0; more < 3; more++) {
                must(pthread_mutex_lock(&other));
                note(&aside, who);
                must(pthread_mutex_unlock(&other));
            }
            return NULL;
        }
        must(pthread_mutex_unlock(&mutex));
    }
    return NULL;
}

static pthread_cond_t woken = PTHREAD_COND_INITIALIZER;
static int arrived, wakes;

static void *waiter(void *argument)
{
    must(pthread_mutex_lock(&mutex));
    arrived++;
    int error;
    do {
        error = pthread_cond_wait(&woken, &mutex);
    } while (error == 0 && !wakes);
    must_be(error == 0 || error == EOWNERDEAD);
    note(&transcript, (intptr_t)argument * 2 + (error == EOWNERDEAD));
    if (error == EOWNERDEAD)
        must(pthread_mutex_consistent(&mutex));
    // It dies with the mutex.
    return NULL;
}

static void wake(int threads)
{
    for (int there = 0; there < threads; usleep(100)) {
        must(pthread_mutex_lock(&mutex));
        there = arrived;
        must(pthread_mutex_unlock(&mutex));
    }
    must(pthread_mutex_lock(&mutex));
    wakes = 1;
    must(pthread_cond_broadcast(&woken));
    must(pthread_mutex_unlock(&mutex));
}

static void wait_in_turn(int threads)
{
    pthread_t ids[MOST_THREADS];
    for (intptr_t who = 0; who < threads; who++)
        must(pthread_create(&ids[who], NULL, waiter, (void *)who));
    wake(threads);
    for (int who = 0; who < threads; who++)
        must(pthread_join(ids[who], NULL));
    must_be(pthread_mutex_lock(&mutex) == EOWNERDEAD);
}

// THREADS ROUNDS repaired|lost|waiting
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 50);
    lost = is(word(argc, argv, 3, "repaired"), "lost");
    pthread_mutexattr_t attributes;
    must(pthread_mutexattr_init(&attributes));
    must(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST));
    must(pthread_mutex_init(&mutex, &attributes));
    if (is(word(argc, argv, 3, "repaired"), "waiting")) {
        wait_in_turn(threads);
        show("order", &transcript);
        return 0;
    }
    crew(threads, worker);
    show("order", &transcript);
    show("aside", &aside);
    for (int who = 0; who < threads; who++)
        printf("unrecoverable %d %lu\n", who, unrecoverable[who]);
    return 0;
}
