// Threads that wait at a plain variable, as those of a spinning barrier do, for one that is made later. Each looks at an
// atomic variable: that is what is under test. Their next event, on an object of their own, is earlier by its timestamp
// than the creation they wait for.
#include "../transcript.h"
#include <stdatomic.h>

static atomic_int there;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;

static void *early(void *argument)
{
    while (!atomic_load_explicit(&there, memory_order_acquire))
        __builtin_ia32_pause();
    pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    must(pthread_mutex_lock(&own));
    must(pthread_mutex_unlock(&own));
    for (int round = 0; round < 50; round++) {
        must(pthread_mutex_lock(&lock));
        note(&transcript, (uint64_t)(intptr_t)argument);
        must(pthread_mutex_unlock(&lock));
        jitter();
    }
    return NULL;
}

static void *late(void *argument)
{
    atomic_store_explicit(&there, 1, memory_order_release);
    return early(argument);
}

// THREADS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    pthread_t crew[MOST_THREADS];
    for (int who = 0; who < threads; who++)
        must(pthread_create(&crew[who], NULL, who == threads - 1 ? late : early, (void *)(intptr_t)who));
    for (int who = 0; who < threads; who++)
        must(pthread_join(crew[who], NULL));
    show("order", &transcript);
    return 0;
}
