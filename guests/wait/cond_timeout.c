// Waits that nobody ends: each times out, and takes the mutex again in an order
// that the clock decides.
#include "../transcript.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static int rounds;
static struct transcript transcript;

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    must(pthread_mutex_lock(&mutex));
    for (int round = 0; round < rounds; round++) {
        clockid_t clock = round % 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
        // The first deadline has passed already.
        struct timespec until = in_microseconds(clock, round == 0 ? -1000 : 100 + 10 * ((who + round) % 3));
        int error = round % 2 ? pthread_cond_clockwait(&never, &mutex, clock, &until)
                              : pthread_cond_timedwait(&never, &mutex, &until);
        must_be(error == ETIMEDOUT || error == 0);
        note(&transcript, who + 20 * (error == 0));
    }
    must(pthread_mutex_unlock(&mutex));
    return NULL;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 20);
    crew(threads, worker);
    show("order", &transcript);
    return 0;
}
