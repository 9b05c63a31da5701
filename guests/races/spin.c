// Spin locks of libc.
#include "twins.h"

static pthread_spinlock_t lock, another;
static sem_t first;
static volatile int shared;
// So many that two of them share a clock where clocks are found by sixteen bits of a hash.
static pthread_spinlock_t crowd[50000];
static pthread_spinlock_t *sharing = crowd + 1;

static unsigned long hash(volatile void *lock)
{
    return ((unsigned long)lock >> 2) * 0x9E3779B97F4A7C15 >> 48;
}

static void *one_in_crowd(void *argument)
{
    must(pthread_spin_lock(crowd));
    shared = 1; // race in_crowd
    must(pthread_spin_unlock(crowd));
    return argument;
}

static void *other_in_crowd(void *argument)
{
    must(pthread_spin_lock(sharing));
    shared = 2; // race elsewhere
    must(pthread_spin_unlock(sharing));
    return argument;
}

static void *one(void *argument)
{
    must(pthread_spin_lock(&lock));
    shared = 1; // race one
    must(pthread_spin_unlock(&lock));
    return argument;
}

static void *other(void *argument)
{
    while (pthread_spin_trylock(&lock) != 0)
        sched_yield();
    shared = 2;
    must(pthread_spin_unlock(&lock));
    return argument;
}

static void *other_with_another(void *argument)
{
    must(pthread_spin_lock(&another));
    shared = 2; // race with_another
    must(pthread_spin_unlock(&another));
    return argument;
}

static void *one_late(void *argument)
{
    must(pthread_spin_lock(&lock));
    must(pthread_spin_unlock(&lock));
    post(&first);
    shared = 1; // race late
    return argument;
}

static void *other_behind(void *argument)
{
    await(&first);
    must(pthread_spin_lock(&lock));
    shared = 2; // race behind
    must(pthread_spin_unlock(&lock));
    return argument;
}

int main(int argc, char **argv)
{
    static const struct twins cases[] = {
        {"held", one, one},
        {"try", one, other},
        {"different", one, other_with_another},
        {"late", one_late, other_behind},
        {"crowd", one_in_crowd, other_in_crowd},
    };
    must(pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE));
    must(pthread_spin_init(&another, PTHREAD_PROCESS_PRIVATE));
    must_be(sem_init(&first, 0, 0) == 0);
    for (size_t i = 0; i < sizeof crowd / sizeof *crowd; i++)
        must(pthread_spin_init(&crowd[i], PTHREAD_PROCESS_PRIVATE));
    for (size_t i = 1; i < sizeof crowd / sizeof *crowd; i++)
        if (hash(&crowd[i]) == hash(crowd))
            sharing = &crowd[i];
    run_chosen(cases);
    return 0;
}
