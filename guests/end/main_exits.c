// Main leaves by pthread_exit; whichever thread ends last runs exit and its
// handlers, and says who it is.
#include "../transcript.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;
static _Thread_local int self = 35;

static void last(void)
{
    printf("last is %d\n", self);
    must(pthread_mutex_lock(&mutex));
    show("order", &transcript);
    must(pthread_mutex_unlock(&mutex));
}

static void *worker(void *argument)
{
    self = (int)(intptr_t)argument;
    for (int round = 0; round < 10; round++) {
        must(pthread_mutex_lock(&mutex));
        note(&transcript, self);
        must(pthread_mutex_unlock(&mutex));
        jitter();
    }
    return NULL;
}

// THREADS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    must_be(atexit(last) == 0);
    for (int who = 0; who < threads; who++) {
        pthread_t id;
        must(pthread_create(&id, NULL, worker, (void *)(intptr_t)who));
        must(pthread_detach(id));
    }
    pthread_exit(NULL);
}
