// A signal strikes a thread that computes for longer than signals are put off,
// and the thread's next operation fails: the handler belongs before the failure. Or it
// has none: the thread ends as soon as the signal was sent.
#include "../transcript.h"
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>

static sem_t empty;
static sem_t computing;
static sem_t handled;
static sem_t sent;
static unsigned long rounds;
static atomic_int killed;

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

static void *ending(void *argument)
{
    must_be(sem_post(&computing) == 0);
    while (atomic_load(&killed) <= (int)(intptr_t)argument)
        ;
    return NULL;
}

// THREADS ROUNDS, 0 for threads that end
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
        must(pthread_create(&ids[who], NULL, rounds == 0 ? ending : worker, (void *)(intptr_t)who));
        must_be(sem_wait(&computing) == 0);
        must(pthread_kill(ids[who], SIGUSR1));
        atomic_fetch_add(&killed, 1);
        if (rounds != 0)
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
