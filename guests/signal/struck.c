// A signal strikes a thread that computes for longer than signals are put off,
// and the thread's next operation fails: the handler belongs before the failure.
#include "../transcript.h"
#include <semaphore.h>
#include <signal.h>

static sem_t empty;
static sem_t computing;
static sem_t handled;
static sem_t sent;
static unsigned long rounds;

static void on_signal(int number)
{
    int saved = errno;
    (void)number;
    must_be(sem_post(&handled) == 0);
    errno = saved;
}

static void *worker(void *argument)
{
    unsigned long sum = 0;
    (void)argument;
    must_be(sem_post(&computing) == 0);
    for (unsigned long i = 0; i < rounds; i++) {
        sum += i * i;
        __asm__ volatile("" : "+r"(sum));
    }
    must_be(sem_trywait(&empty) == -1 && errno == EAGAIN);
    must_be(sem_trywait(&empty) == -1 && errno == EAGAIN);
    // A thread that is gone gets no signal.
    while (sem_wait(&sent) == -1)
        must_be(errno == EINTR);
    return (void *)(sum & 0xFFFF);
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 2);
    pthread_t ids[MOST_THREADS];
    struct sigaction action;
    rounds = number(argc, argv, 2, 60000000);
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    must_be(sigaction(SIGUSR1, &action, NULL) == 0);
    must_be(sem_init(&empty, 0, 0) == 0);
    must_be(sem_init(&computing, 0, 0) == 0);
    must_be(sem_init(&handled, 0, 0) == 0);
    must_be(sem_init(&sent, 0, 0) == 0);
    for (int who = 0; who < threads; who++) {
        must(pthread_create(&ids[who], NULL, worker, NULL));
        must_be(sem_wait(&computing) == 0);
        must(pthread_kill(ids[who], SIGUSR1));
        must_be(sem_post(&sent) == 0);
    }
    for (int who = 0; who < threads; who++) {
        void *sum;
        must_be(sem_wait(&handled) == 0);
        must(pthread_join(ids[who], &sum));
        printf("sum %lu\n", (unsigned long)sum);
    }
    return 0;
}
