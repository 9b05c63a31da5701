// Threads that wait for a short time while others send them signals as fast as they can: some strike in the wait,
// some behind its end, before the thread has its mutex again, and some while a handler runs.
//
// usage: flood WAITERS ROUNDS
#include "../transcript.h"
#include <signal.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static struct transcript transcript;
static pthread_t waiters[MOST_THREADS];
static int threads, rounds, left;
static _Thread_local volatile sig_atomic_t handled;

static void on_signal(int number)
{
    (void)number;
    handled++;
}

static void *waiter(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        must(pthread_mutex_lock(&mutex));
        struct timespec until = in_microseconds(CLOCK_REALTIME, 300);
        int error = pthread_cond_timedwait(&condition, &mutex, &until);
        must_be(error == 0 || error == ETIMEDOUT);
        note(&transcript, (error ? 17 : 3) * (who + 1) + handled);
        left -= round + 1 == rounds;
        must(pthread_mutex_unlock(&mutex));
    }
    return NULL;
}

static void *sender(void *argument)
{
    for (int goes_on = 1; goes_on;) {
        must(pthread_mutex_lock(&mutex));
        goes_on = left > 0;
        must(pthread_cond_signal(&condition));
        must(pthread_mutex_unlock(&mutex));
        for (int which = 0; which < threads; which++)
            must(pthread_kill(waiters[which], SIGUSR1));
        if (argument)
            pause_for(20000);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    threads = left = number(argc, argv, 1, 2);
    rounds = number(argc, argv, 2, 20);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    must_be(sigaction(SIGUSR1, &action, NULL) == 0);
    pthread_t senders[2];
    for (int which = 0; which < threads; which++)
        must(pthread_create(&waiters[which], NULL, waiter, (void *)(intptr_t)which));
    for (int which = 0; which < 2; which++)
        must(pthread_create(&senders[which], NULL, sender, (void *)(intptr_t)which));
    for (int which = 0; which < 2; which++)
        must(pthread_join(senders[which], NULL));
    for (int which = 0; which < threads; which++)
        must(pthread_join(waiters[which], NULL));
    show("flood", &transcript);
    return 0;
}
