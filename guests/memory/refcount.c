// The last one to drop an object frees it right after its unlock, while the one
// before may still be inside its own unlock: POSIX allows it, so nothing may
// touch the mutex after its effect. The memory is overwritten at once.
#include "../transcript.h"

struct object {
    pthread_mutex_t mutex;
    int references;
    struct transcript droppers;
};

static struct object **objects;
static int threads;
static int rounds;
static pthread_mutex_t tally = PTHREAD_MUTEX_INITIALIZER;
static struct transcript last;

static void drop(struct object *object, int who)
{
    must(pthread_mutex_lock(&object->mutex));
    note(&object->droppers, who);
    int left = --object->references;
    must(pthread_mutex_unlock(&object->mutex));
    if (left > 0)
        return;
    must(pthread_mutex_lock(&tally));
    note(&last, fold(object->droppers.hash, who));
    must(pthread_mutex_unlock(&tally));
    must(pthread_mutex_destroy(&object->mutex));
    memset(object, 0xff, sizeof *object);
    free(object);
}

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        drop(objects[round], who);
        if (round % 8 == 0)
            jitter();
    }
    return NULL;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 200);
    objects = (struct object **)calloc(rounds, sizeof *objects);
    for (int round = 0; round < rounds; round++) {
        objects[round] = (struct object *)calloc(1, sizeof **objects);
        must(pthread_mutex_init(&objects[round]->mutex, NULL));
        objects[round]->references = threads;
    }
    crew(threads, worker);
    free(objects);
    show("last", &last);
    return 0;
}
