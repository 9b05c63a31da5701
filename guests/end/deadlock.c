// Two threads take two mutexes in opposite order, for sure; others wait behind
// them. Says so, then hangs until it is interrupted.
#include "../transcript.h"
#include <semaphore.h>

static pthread_mutex_t mutexes[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_mutex_t before = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;
static sem_t held[2];
static sem_t go_on;
static int threads;

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0; round < 50; round++) {
        must(pthread_mutex_lock(&before));
        note(&transcript, who);
        must(pthread_mutex_unlock(&before));
        jitter();
    }
    if (who < 2) {
        must(pthread_mutex_lock(&mutexes[who]));
        must_be(sem_post(&held[who]) == 0);
        must_be(sem_wait(&held[1 - who]) == 0);
        if (who == 0) {
            must(pthread_mutex_lock(&before));
            show("deadlock behind", &transcript);
            fflush(stdout);
            must(pthread_mutex_unlock(&before));
            for (int bystander = 2; bystander < threads; bystander++)
                must_be(sem_post(&go_on) == 0);
        }
    } else {
        must_be(sem_wait(&go_on) == 0);
    }
    must(pthread_mutex_lock(&mutexes[who < 2 ? 1 - who : 0]));
    fail(__FILE__, __LINE__, "no deadlock", 0);
    return NULL;
}

// Never does anything that is recorded, and never ends.
static void *idle(void *argument)
{
    for (;;)
        pause_for(1000000);
    return argument;
}

// THREADS (2 or more) [idle]
int main(int argc, char **argv)
{
    threads = number(argc, argv, 1, 4);
    pthread_t ids[MOST_THREADS];
    must_be(sem_init(&held[0], 0, 0) == 0);
    must_be(sem_init(&held[1], 0, 0) == 0);
    must_be(sem_init(&go_on, 0, 0) == 0);
    if (is(word(argc, argv, 2, ""), "idle")) {
        pthread_t id;
        must(pthread_create(&id, NULL, idle, NULL));
    }
    for (int who = 0; who < threads; who++)
        must(pthread_create(&ids[who], NULL, worker, (void *)(intptr_t)who));
    for (int who = 0; who < threads; who++)
        must(pthread_join(ids[who], NULL));
    return 0;
}
