// Many threads alive at once: all meet at a barrier, then note one by one.
#include "../transcript.h"

static pthread_barrier_t all;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;

static void *worker(void *argument)
{
    int result = pthread_barrier_wait(&all);
    must_be(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
    must(pthread_mutex_lock(&mutex));
    note(&transcript, (intptr_t)argument);
    must(pthread_mutex_unlock(&mutex));
    return NULL;
}

// THREADS [STACK-KIB]
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 100);
    int stack = number(argc, argv, 2, 64);
    pthread_t ids[MOST_THREADS];
    pthread_attr_t attributes;
    must(pthread_attr_init(&attributes));
    must(pthread_attr_setstacksize(&attributes, (size_t)stack * 1024));
    must(pthread_barrier_init(&all, NULL, threads));
    for (int who = 0; who < threads; who++)
        must(pthread_create(&ids[who], &attributes, worker, (void *)(intptr_t)who));
    for (int who = 0; who < threads; who++)
        must(pthread_join(ids[who], NULL));
    show("order", &transcript);
    return 0;
}
