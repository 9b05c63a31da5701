// Thousands of objects of the kinds that have no room for a clock of their own,
// private or in memory that could be shared: more than any fixed table holds.
#include "../transcript.h"
#include <semaphore.h>
#include <sys/mman.h>

struct object {
    pthread_mutex_t robust;
    pthread_mutex_t gate;
    pthread_cond_t condition;
    pthread_rwlock_t rwlock;
    sem_t sem;
    struct transcript transcript;
};

static struct object *objects;
static int count;
static int threads;
static int shared;

static void make(struct object *object)
{
    pthread_mutexattr_t mutex;
    pthread_condattr_t condition;
    pthread_rwlockattr_t rwlock;
    must(pthread_mutexattr_init(&mutex));
    must(pthread_condattr_init(&condition));
    must(pthread_rwlockattr_init(&rwlock));
    must(pthread_mutexattr_setpshared(&mutex, shared));
    must(pthread_condattr_setpshared(&condition, shared));
    must(pthread_rwlockattr_setpshared(&rwlock, shared));
    must(pthread_mutex_init(&object->gate, &mutex));
    must(pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST));
    must(pthread_mutex_init(&object->robust, &mutex));
    must(pthread_cond_init(&object->condition, &condition));
    must(pthread_rwlock_init(&object->rwlock, &rwlock));
    must_be(sem_init(&object->sem, shared, 1) == 0);
}

static void visit(struct object *object, int who)
{
    must(pthread_mutex_lock(&object->robust));
    must(pthread_rwlock_wrlock(&object->rwlock));
    must_be(sem_wait(&object->sem) == 0);
    must(pthread_mutex_lock(&object->gate));
    note(&object->transcript, who);
    must(pthread_cond_signal(&object->condition));
    must(pthread_mutex_unlock(&object->gate));
    must_be(sem_post(&object->sem) == 0);
    must(pthread_rwlock_unlock(&object->rwlock));
    must(pthread_mutex_unlock(&object->robust));
}

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    // Threads go through the objects in opposite directions: where they meet depends on how far each got.
    for (int step = 0; step < count; step++) {
        int at = (step + who / 2 * (count / threads)) % count;
        visit(&objects[who % 2 ? count - 1 - at : at], who);
        if (step % 64 == 0)
            jitter();
    }
    return NULL;
}

// THREADS OBJECTS private|shared
int main(int argc, char **argv)
{
    threads = number(argc, argv, 1, 4);
    count = number(argc, argv, 2, 5000);
    shared = is(word(argc, argv, 3, "private"), "shared") ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE;
    objects = (struct object *)mmap(NULL, (size_t)count * sizeof *objects, PROT_READ | PROT_WRITE,
                                    (shared ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS, -1, 0);
    must_be(objects != MAP_FAILED);
    for (int index = 0; index < count; index++)
        make(&objects[index]);
    crew(threads, worker);
    uint64_t hash = 0;
    for (int index = 0; index < count; index++)
        hash = fold(hash, objects[index].transcript.hash);
    printf("order %016llx\n", (unsigned long long)hash);
    return 0;
}
