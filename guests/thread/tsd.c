// Destructors of thread-specific data that lock and set their value again, in all
// four rounds, after the start routine ended.
#include "../transcript.h"

#define ROUNDS 4

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t keys[3];
static struct transcript transcript;

struct value {
    int who;
    int key;
    int destroyed;
};

static void destroy(void *argument)
{
    struct value *value = (struct value *)argument;
    must(pthread_mutex_lock(&mutex));
    note(&transcript, value->who * 3 + value->key);
    must(pthread_mutex_unlock(&mutex));
    jitter();
    if (++value->destroyed < ROUNDS)
        must(pthread_setspecific(keys[value->key], value));
    else
        free(value);
}

static void *worker(void *argument)
{
    for (int key = 0; key < 3; key++) {
        struct value *value = (struct value *)calloc(1, sizeof *value);
        value->who = (int)(intptr_t)argument;
        value->key = key;
        must(pthread_setspecific(keys[key], value));
    }
    jitter();
    if ((intptr_t)argument % 2)
        pthread_exit(NULL);
    return NULL;
}

// THREADS
int main(int argc, char **argv)
{
    for (int key = 0; key < 3; key++)
        must(pthread_key_create(&keys[key], destroy));
    for (int generation = 0; generation < 5; generation++)
        crew(number(argc, argv, 1, 4), worker);
    show("order", &transcript);
    return 0;
}
