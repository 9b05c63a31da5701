// Signals between threads: the handler posts a semaphore, and counts; the target
// sees the count between its own operations, so it shows where it was delivered.
#include "../transcript.h"
#include <semaphore.h>
#include <signal.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;
static sem_t handled;
static const char *how;
static int rounds;
static _Thread_local volatile sig_atomic_t seen;

static void on_signal(int number)
{
    int saved = errno;
    (void)number;
    seen = seen + 1;
    must_be(sem_post(&handled) == 0);
    errno = saved;
}

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    while (seen < rounds) {
        must(pthread_mutex_lock(&mutex));
        note(&transcript, who * 100 + seen);
        must(pthread_mutex_unlock(&mutex));
        jitter();
        if (is(how, "raise"))
            must_be(raise(SIGUSR1) == 0);
    }
    return NULL;
}

// THREADS ROUNDS kill|raise
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 3);
    pthread_t ids[MOST_THREADS];
    struct sigaction action;
    rounds = number(argc, argv, 2, 20);
    how = word(argc, argv, 3, "kill");
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    must_be(sigaction(SIGUSR1, &action, NULL) == 0);
    must_be(sem_init(&handled, 0, 0) == 0);
    for (int who = 0; who < threads; who++)
        must(pthread_create(&ids[who], NULL, worker, (void *)(intptr_t)who));
    for (int round = 0; round < rounds; round++) {
        for (int who = 0; who < threads; who++) {
            if (is(how, "kill"))
                must(pthread_kill(ids[who], SIGUSR1));
            while (sem_wait(&handled) != 0)
                must_be(errno == EINTR);
        }
        jitter();
    }
    for (int who = 0; who < threads; who++)
        must(pthread_join(ids[who], NULL));
    show("order", &transcript);
    return 0;
}
