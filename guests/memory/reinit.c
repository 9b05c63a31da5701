// Objects of several kinds made, used and destroyed in turn at one address, in
// static, stack and heap memory: a clock must not outlive its object, and an
// order must not be looked up by address alone.
#include "../transcript.h"
#include <semaphore.h>

union object {
    pthread_mutex_t mutex;
    pthread_rwlock_t rwlock;
    pthread_spinlock_t spin;
    sem_t sem;
    struct {
        pthread_mutex_t mutex;
        pthread_cond_t condition;
    } pair;
};

static union object in_static;
static union object *object;
static int kind;
static int rounds;
static struct transcript transcript;

static void make(void)
{
    switch (kind) {
    case 0:
        must(pthread_mutex_init(&object->mutex, NULL));
        break;
    case 1:
        must(pthread_rwlock_init(&object->rwlock, NULL));
        break;
    case 2:
        must(pthread_spin_init(&object->spin, 0));
        break;
    case 3:
        must_be(sem_init(&object->sem, 0, 1) == 0);
        break;
    default:
        must(pthread_mutex_init(&object->pair.mutex, NULL));
        must(pthread_cond_init(&object->pair.condition, NULL));
    }
}

static void enter(int who)
{
    switch (kind) {
    case 0:
        must(pthread_mutex_lock(&object->mutex));
        break;
    case 1:
        must(pthread_rwlock_wrlock(&object->rwlock));
        break;
    case 2:
        must(pthread_spin_lock(&object->spin));
        break;
    case 3:
        must_be(sem_wait(&object->sem) == 0);
        break;
    default:
        must(pthread_mutex_lock(&object->pair.mutex));
        struct timespec until = in_microseconds(CLOCK_REALTIME, 30);
        int error = pthread_cond_timedwait(&object->pair.condition, &object->pair.mutex, &until);
        note(&transcript, 20 + who * 2 + (error == ETIMEDOUT));
    }
}

static void leave(void)
{
    switch (kind) {
    case 0:
        must(pthread_mutex_unlock(&object->mutex));
        break;
    case 1:
        must(pthread_rwlock_unlock(&object->rwlock));
        break;
    case 2:
        must(pthread_spin_unlock(&object->spin));
        break;
    case 3:
        must_be(sem_post(&object->sem) == 0);
        break;
    default:
        must(pthread_cond_signal(&object->pair.condition));
        must(pthread_mutex_unlock(&object->pair.mutex));
    }
}

static void destroy(void)
{
    switch (kind) {
    case 0:
        must(pthread_mutex_destroy(&object->mutex));
        break;
    case 1:
        must(pthread_rwlock_destroy(&object->rwlock));
        break;
    case 2:
        must(pthread_spin_destroy(&object->spin));
        break;
    case 3:
        must_be(sem_destroy(&object->sem) == 0);
        break;
    default:
        must(pthread_cond_destroy(&object->pair.condition));
        must(pthread_mutex_destroy(&object->pair.mutex));
    }
}

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        enter(who);
        note(&transcript, who);
        leave();
        jitter();
    }
    return NULL;
}

// THREADS ROUNDS static|stack|heap
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 20);
    const char *where = word(argc, argv, 3, "static");
    union object on_stack;
    for (int generation = 0; generation < 20; generation++) {
        object = is(where, "static") ? &in_static
                 : is(where, "stack") ? &on_stack
                                      : (union object *)malloc(sizeof *object);
        kind = generation % 10 < 5 ? generation % 5 : (generation / 2) % 5;
        // Rubbish left by an earlier owner of the memory must not be taken for a clock.
        memset(object, 0x5a + generation, sizeof *object);
        make();
        crew(threads, worker);
        destroy();
        if (is(where, "heap"))
            free(object);
    }
    show("order", &transcript);
    return 0;
}
