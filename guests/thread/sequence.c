// Many short threads in sequence, two at a time: thread identifiers and stacks are
// used again at once, names are not.
#include "../transcript.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;

static void *worker(void *argument)
{
    must(pthread_mutex_lock(&mutex));
    note(&transcript, (intptr_t)argument);
    must(pthread_mutex_unlock(&mutex));
    return NULL;
}

// COUNT
int main(int argc, char **argv)
{
    int count = number(argc, argv, 1, 1000);
    for (int pair = 0; pair < count / 2; pair++) {
        pthread_t one, other;
        must(pthread_create(&one, NULL, worker, (void *)(intptr_t)(pair * 2)));
        must(pthread_create(&other, NULL, worker, (void *)(intptr_t)(pair * 2 + 1)));
        must(pthread_join(one, NULL));
        must(pthread_join(other, NULL));
    }
    show("order", &transcript);
    return 0;
}
