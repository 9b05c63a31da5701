// An initialiser whose thread is cancelled in the middle: the control is free
// again and the next caller runs it. Attempts are recorded, not one winner.
#include "../transcript.h"

static pthread_once_t control = PTHREAD_ONCE_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;
static int attempts;
static _Thread_local int self;

static void initialise(void)
{
    must(pthread_mutex_lock(&mutex));
    note(&transcript, self);
    int attempt = ++attempts;
    must(pthread_mutex_unlock(&mutex));
    if (attempt <= 3) {
        must(pthread_cancel(pthread_self()));
        pthread_testcancel();
    }
}

static void *worker(void *argument)
{
    self = (int)(intptr_t)argument;
    jitter();
    must(pthread_once(&control, initialise));
    must(pthread_mutex_lock(&mutex));
    note(&transcript, 20 + self);
    must(pthread_mutex_unlock(&mutex));
    return NULL;
}

// THREADS (5 or more)
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 6);
    pthread_t ids[MOST_THREADS];
    int cancelled = 0;
    for (int who = 0; who < threads; who++)
        must(pthread_create(&ids[who], NULL, worker, (void *)(intptr_t)who));
    for (int who = 0; who < threads; who++) {
        void *result;
        must(pthread_join(ids[who], &result));
        cancelled += result == PTHREAD_CANCELED;
    }
    show("order", &transcript);
    printf("attempts %d cancelled %d\n", attempts, cancelled);
    return 0;
}
