// Process-shared objects in one mapping between forked processes, each of which
// runs threads. With `apart`, every process maps the memory again at an address of
// its own, so an object is one file and offset, not one address.
#include "../transcript.h"
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/wait.h>

struct shared {
    pthread_mutex_t mutex;
    pthread_mutex_t robust;
    pthread_cond_t condition;
    pthread_rwlock_t rwlock;
    pthread_barrier_t barrier;
    pthread_spinlock_t spin;
    sem_t sem;
    int turn;
    struct transcript in_mutex, in_rwlock, in_spin, in_sem, in_barrier, in_turn, in_robust;
};

static struct shared *shared;
static int processes;
static int threads;
static int rounds;
static int process;

static void make(void)
{
    pthread_mutexattr_t mutex;
    pthread_condattr_t condition;
    pthread_rwlockattr_t rwlock;
    pthread_barrierattr_t barrier;
    must(pthread_mutexattr_init(&mutex));
    must(pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED));
    must(pthread_mutex_init(&shared->mutex, &mutex));
    must(pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST));
    must(pthread_mutex_init(&shared->robust, &mutex));
    must(pthread_condattr_init(&condition));
    must(pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED));
    must(pthread_cond_init(&shared->condition, &condition));
    must(pthread_rwlockattr_init(&rwlock));
    must(pthread_rwlockattr_setpshared(&rwlock, PTHREAD_PROCESS_SHARED));
    must(pthread_rwlock_init(&shared->rwlock, &rwlock));
    must(pthread_barrierattr_init(&barrier));
    must(pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED));
    must(pthread_barrier_init(&shared->barrier, &barrier, processes * threads));
    must(pthread_spin_init(&shared->spin, PTHREAD_PROCESS_SHARED));
    must_be(sem_init(&shared->sem, 1, 1) == 0);
}

static void take_turns(int who)
{
    must(pthread_mutex_lock(&shared->mutex));
    while (shared->turn % (processes * threads) != who)
        must(pthread_cond_wait(&shared->condition, &shared->mutex));
    shared->turn++;
    note(&shared->in_turn, who);
    must(pthread_cond_broadcast(&shared->condition));
    must(pthread_mutex_unlock(&shared->mutex));
}

static void *worker(void *argument)
{
    int who = process * threads + (int)(intptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        must(pthread_mutex_lock(&shared->mutex));
        note(&shared->in_mutex, who);
        must(pthread_mutex_unlock(&shared->mutex));
        must(pthread_rwlock_wrlock(&shared->rwlock));
        note(&shared->in_rwlock, who);
        must(pthread_rwlock_unlock(&shared->rwlock));
        must(pthread_spin_lock(&shared->spin));
        note(&shared->in_spin, who);
        must(pthread_spin_unlock(&shared->spin));
        must_be(sem_wait(&shared->sem) == 0);
        note(&shared->in_sem, who);
        must_be(sem_post(&shared->sem) == 0);
        jitter();
        if (round % 8 == 0 && pthread_barrier_wait(&shared->barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
            note(&shared->in_barrier, who);
    }
    take_turns(who);
    int error = pthread_mutex_lock(&shared->robust);
    must_be(error == 0 || error == EOWNERDEAD);
    note(&shared->in_robust, who * 2 + (error == EOWNERDEAD));
    if (error == EOWNERDEAD)
        must(pthread_mutex_consistent(&shared->robust));
    // The last thread of a process dies with its process while it owns this one.
    if ((intptr_t)argument == threads - 1 && process > 0)
        return NULL;
    must(pthread_mutex_unlock(&shared->robust));
    return NULL;
}

// PROCESSES THREADS ROUNDS same|apart
int main(int argc, char **argv)
{
    processes = number(argc, argv, 1, 2);
    threads = number(argc, argv, 2, 2);
    rounds = number(argc, argv, 3, 50);
    int apart = is(word(argc, argv, 4, "same"), "apart");
    int memory = memfd_create("shared", 0);
    must_be(memory >= 0 && ftruncate(memory, sizeof *shared) == 0);
    shared = (struct shared *)mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    must_be(shared != MAP_FAILED);
    make();
    for (int child = 1; child < processes; child++) {
        pid_t id = fork();
        must_be(id >= 0);
        if (id == 0) {
            process = child;
            if (apart)
                shared = (struct shared *)mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
            must_be(shared != MAP_FAILED);
            crew(threads, worker);
            _exit(0);
        }
    }
    crew(threads, worker);
    for (int child = 1; child < processes; child++) {
        int status;
        must_be(wait(&status) > 0);
        must_be(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    show("mutex", &shared->in_mutex);
    show("rwlock", &shared->in_rwlock);
    show("spin", &shared->in_spin);
    show("sem", &shared->in_sem);
    show("barrier", &shared->in_barrier);
    show("turn", &shared->in_turn);
    show("robust", &shared->in_robust);
    return 0;
}
