// Spin locks of libc.
#include "twins.h"

static pthread_spinlock_t lock, another;
static sem_t first;
static volatile int shared;

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
    };
    must(pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE));
    must(pthread_spin_init(&another, PTHREAD_PROCESS_PRIVATE));
    must_be(sem_init(&first, 0, 0) == 0);
    run_chosen(cases);
    return 0;
}
