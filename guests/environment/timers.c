// Timers that call again and again, each in a thread of its own: set, asked for, set anew and deleted by several
// threads, while others of their callbacks run.
//
// usage: timers THREADS ROUNDS

#include "../transcript.h"
#include <semaphore.h>
#include <signal.h>

enum { CALLS = 3 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;
static sem_t called[MOST_THREADS];
static int told[MOST_THREADS];
static int rounds;

static void callback(union sigval value)
{
    int who = value.sival_int;
    must(pthread_mutex_lock(&mutex));
    note(&transcript, 100 + who);
    must(pthread_mutex_unlock(&mutex));
    if (told[who] < 1)
        fail(__FILE__, __LINE__, "what was written before the timer was set", 0);
    must_be(sem_post(&called[who]) == 0);
}

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    pthread_attr_t small;
    must(pthread_attr_init(&small));
    must(pthread_attr_setstacksize(&small, 1 << 18));
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = callback};
    event.sigev_value.sival_int = who;
    if (who % 2)
        event.sigev_notify_attributes = &small;
    for (int round = 0; round < rounds; round++) {
        timer_t timer;
        struct itimerspec often = {{0, 300000}, {0, 100000}}, left;
        must_be(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
        told[who]++;
        must_be(timer_settime(timer, 0, &often, NULL) == 0);
        for (int call = 0; call < CALLS; call++)
            must_be(sem_wait(&called[who]) == 0);
        must_be(timer_gettime(timer, &left) == 0);
        must_be(timer_getoverrun(timer) >= 0);
        must(pthread_mutex_lock(&mutex));
        note(&transcript, left.it_value.tv_nsec % 36);
        must(pthread_mutex_unlock(&mutex));
        must_be(timer_delete(timer) == 0);
    }
    must(pthread_attr_destroy(&small));
    return NULL;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 3);
    rounds = number(argc, argv, 2, 5);
    for (int who = 0; who < threads; who++)
        must_be(sem_init(&called[who], 0, 0) == 0);
    crew(threads, worker);
    must(pthread_mutex_lock(&mutex));
    show("timers", &transcript);
    fflush(stdout);
    _exit(0);
}
