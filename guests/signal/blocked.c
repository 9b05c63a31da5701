// Signals that arrive while the target blocks in a lock, a condition wait, a
// semaphore wait and a join: what the program sees of it is EINTR from sem_wait.
#include "../transcript.h"
#include <semaphore.h>
#include <signal.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t empty;
static sem_t handled;
static int done;
static struct transcript transcript;
static unsigned long interrupted[MOST_THREADS];

static void on_signal(int number)
{
    int saved = errno;
    (void)number;
    must_be(sem_post(&handled) == 0);
    errno = saved;
}

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    if (who % 2) {
        while (sem_wait(&empty) != 0) {
            must_be(errno == EINTR);
            interrupted[who]++;
        }
    }
    must(pthread_mutex_lock(&mutex));
    while (!done)
        must(pthread_cond_wait(&condition, &mutex));
    note(&transcript, who);
    must(pthread_mutex_unlock(&mutex));
    return NULL;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    int rounds = number(argc, argv, 2, 10);
    pthread_t ids[MOST_THREADS];
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    must_be(sigaction(SIGUSR1, &action, NULL) == 0);
    must_be(sem_init(&empty, 0, 0) == 0);
    must_be(sem_init(&handled, 0, 0) == 0);
    for (int who = 0; who < threads; who++)
        must(pthread_create(&ids[who], NULL, worker, (void *)(intptr_t)who));
    for (int round = 0; round < rounds; round++) {
        jitter();
        must(pthread_kill(ids[round % threads], SIGUSR1));
        must_be(sem_wait(&handled) == 0);
    }
    for (int who = 1; who < threads; who += 2)
        must_be(sem_post(&empty) == 0);
    must(pthread_mutex_lock(&mutex));
    done = 1;
    must(pthread_cond_broadcast(&condition));
    must(pthread_mutex_unlock(&mutex));
    for (int who = 0; who < threads; who++)
        must(pthread_join(ids[who], NULL));
    must(pthread_kill(pthread_self(), 0));
    show("order", &transcript);
    for (int who = 0; who < threads; who++)
        printf("interrupted %d %lu\n", who, interrupted[who]);
    return 0;
}
