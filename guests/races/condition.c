// Condition variables, used rightly and misused.
#include "twins.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static sem_t waiting;
static volatile int shared, flag;
static int ready;

static void *sender(void *argument)
{
    shared = 1;
    must(pthread_mutex_lock(&mutex));
    ready = 1;
    must(pthread_cond_signal(&changed));
    must(pthread_mutex_unlock(&mutex));
    return argument;
}

static void *caller(void *argument)
{
    shared = 1;
    must(pthread_mutex_lock(&mutex));
    ready = 1;
    must(pthread_mutex_unlock(&mutex));
    must(pthread_cond_broadcast(&changed));
    return argument;
}

static void *receiver(void *argument)
{
    must(pthread_mutex_lock(&mutex));
    while (!ready)
        must(pthread_cond_wait(&changed, &mutex));
    must(pthread_mutex_unlock(&mutex));
    (void)shared; // race received
    return argument;
}

static void *timed_receiver(void *argument)
{
    struct timespec until = in_microseconds(CLOCK_REALTIME, 60L * 1000000);
    must(pthread_mutex_lock(&mutex));
    while (!ready)
        must(pthread_cond_timedwait(&changed, &mutex, &until));
    must(pthread_mutex_unlock(&mutex));
    (void)shared;
    return argument;
}

static void *clock_receiver(void *argument)
{
    struct timespec until = in_microseconds(CLOCK_MONOTONIC, 60L * 1000000);
    must(pthread_mutex_lock(&mutex));
    while (!ready)
        must(pthread_cond_clockwait(&changed, &mutex, CLOCK_MONOTONIC, &until));
    must(pthread_mutex_unlock(&mutex));
    (void)shared;
    return argument;
}

// What is done behind the signal, and behind the unlock, reaches nobody.
static void *hasty_sender(void *argument)
{
    must(pthread_mutex_lock(&mutex));
    ready = 1;
    must(pthread_cond_signal(&changed));
    must(pthread_mutex_unlock(&mutex));
    shared = 1; // race after_signal
    return argument;
}

// The waiter holds the mutex from its post until it waits: the signal finds it waiting, and nothing but the signal
// leads from one thread to the other.
static void *sender_without_mutex(void *argument)
{
    await(&waiting);
    must(pthread_mutex_lock(&mutex));
    must(pthread_mutex_unlock(&mutex));
    shared = 1;
    must(pthread_cond_signal(&changed));
    return argument;
}

static void *receiver_of_one(void *argument)
{
    must(pthread_mutex_lock(&mutex));
    post(&waiting);
    must(pthread_cond_wait(&changed, &mutex));
    must(pthread_mutex_unlock(&mutex));
    (void)shared;
    return argument;
}

// The flag is set without the mutex under which it is looked at.
static void *careless_sender(void *argument)
{
    flag = 1; // race flag_set
    await(&waiting);
    must(pthread_mutex_lock(&mutex));
    ready = 1;
    must(pthread_cond_signal(&changed));
    must(pthread_mutex_unlock(&mutex));
    return argument;
}

static void *flag_receiver(void *argument)
{
    must(pthread_mutex_lock(&mutex));
    (void)flag; // race flag_seen
    post(&waiting);
    while (!ready)
        must(pthread_cond_wait(&changed, &mutex));
    must(pthread_mutex_unlock(&mutex));
    return argument;
}

// A wait that ends by its deadline was told nothing.
static void *silent(void *argument)
{
    shared = 1; // race silent
    return argument;
}

static void *impatient(void *argument)
{
    struct timespec until = in_microseconds(CLOCK_REALTIME, 500);
    must(pthread_mutex_lock(&mutex));
    while (pthread_cond_timedwait(&changed, &mutex, &until) != ETIMEDOUT)
        continue;
    must(pthread_mutex_unlock(&mutex));
    shared = 2; // race impatient
    return argument;
}

// The mutex is free while its holder waits.
static void *between(void *argument)
{
    await(&waiting);
    must(pthread_mutex_lock(&mutex));
    shared = 1;
    ready = 1;
    must(pthread_cond_signal(&changed));
    must(pthread_mutex_unlock(&mutex));
    return argument;
}

static void *around(void *argument)
{
    must(pthread_mutex_lock(&mutex));
    shared = 2;
    post(&waiting);
    while (!ready)
        must(pthread_cond_wait(&changed, &mutex));
    shared = 3;
    must(pthread_mutex_unlock(&mutex));
    return argument;
}

int main(int argc, char **argv)
{
    static const struct twins cases[] = {
        {"signal", sender, receiver},
        {"broadcast", caller, receiver},
        {"timed", sender, timed_receiver},
        {"clock", sender, clock_receiver},
        {"after_signal", hasty_sender, receiver},
        {"signal_alone", sender_without_mutex, receiver_of_one},
        {"flag_without_mutex", careless_sender, flag_receiver},
        {"timeout", silent, impatient},
        {"around", between, around},
    };
    must_be(sem_init(&waiting, 0, 0) == 0);
    run_chosen(cases);
    return 0;
}
