// Main returns, or a worker calls exit, while other threads go on locking: where
// they stand when the process is gone is not ordered by anything, and the exit
// handlers that run beside them take part in the order.
#include "../transcript.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;
static struct transcript others;
static int by_worker;

static void at_the_end(void)
{
    for (int round = 0; round < 20; round++) {
        must(pthread_mutex_lock(&mutex));
        note(&transcript, 33);
        must(pthread_mutex_unlock(&mutex));
        jitter();
    }
    must(pthread_mutex_lock(&mutex));
    show("order", &transcript);
    must(pthread_mutex_unlock(&mutex));
}

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0;; round++) {
        must(pthread_mutex_lock(&mutex));
        note(who % 2 ? &others : &transcript, who);
        must(pthread_mutex_unlock(&mutex));
        jitter();
        if (by_worker && who == 0 && round == 100)
            exit(9);
    }
}

// THREADS return|worker
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    by_worker = is(word(argc, argv, 2, "return"), "worker");
    pthread_t id;
    must_be(atexit(at_the_end) == 0);
    for (int who = 0; who < threads; who++)
        must(pthread_create(&id, NULL, worker, (void *)(intptr_t)who));
    if (by_worker)
        must(pthread_join(id, NULL));
    pause_for(1000000);
    return 8;
}
