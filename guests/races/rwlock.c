// Read-write locks: a write lock orders, two read locks do not.
#include "twins.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t inside;
static volatile int shared;

static void read_lock(void)
{
    must(pthread_rwlock_rdlock(&lock));
}

static void write_lock(void)
{
    must(pthread_rwlock_wrlock(&lock));
}

static void unlock(void)
{
    must(pthread_rwlock_unlock(&lock));
}

static void *writer(void *argument)
{
    write_lock();
    shared = 1;
    unlock();
    return argument;
}

static void *reader(void *argument)
{
    read_lock();
    (void)shared;
    unlock();
    return argument;
}

static void *trying_writer(void *argument)
{
    while (pthread_rwlock_trywrlock(&lock) != 0)
        sched_yield();
    shared = 2;
    unlock();
    return argument;
}

static void *trying_reader(void *argument)
{
    while (pthread_rwlock_tryrdlock(&lock) != 0)
        sched_yield();
    (void)shared;
    unlock();
    return argument;
}

static void *timed_writer(void *argument)
{
    struct timespec until = in_microseconds(CLOCK_REALTIME, 60L * 1000000);
    must(pthread_rwlock_timedwrlock(&lock, &until));
    shared = 2;
    unlock();
    return argument;
}

static void *timed_reader(void *argument)
{
    struct timespec until = in_microseconds(CLOCK_MONOTONIC, 60L * 1000000);
    must(pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &until));
    (void)shared;
    unlock();
    return argument;
}

static void *writing_reader(void *argument)
{
    read_lock();
    shared = 3; // race writing_reader
    unlock();
    return argument;
}

static void *another_reader(void *argument)
{
    read_lock();
    (void)shared; // race another_reader
    unlock();
    return argument;
}

// What readers do before and behind their lock is not ordered by it either.
static void *one_before(void *argument)
{
    shared = 1; // race before
    read_lock();
    unlock();
    return argument;
}

static void *other_behind(void *argument)
{
    read_lock();
    unlock();
    shared = 2; // race behind
    return argument;
}

static void *other_behind_writing(void *argument)
{
    await(&inside);
    write_lock();
    unlock();
    shared = 2;
    return argument;
}

// Posted with the lock held: the writer has to wait for the unlock.
static void *one_before_reading(void *argument)
{
    read_lock();
    post(&inside);
    shared = 1;
    unlock();
    return argument;
}

int main(int argc, char **argv)
{
    static const struct twins cases[] = {
        {"writers", writer, writer},
        {"writer_reader", writer, reader},
        {"readers", reader, reader},
        {"try_writer", writer, trying_writer},
        {"try_reader", writer, trying_reader},
        {"timed_writer", writer, timed_writer},
        {"timed_reader", writer, timed_reader},
        {"reader_writes", writing_reader, another_reader},
        {"readers_write", writing_reader, writing_reader},
        {"between_readers", one_before, other_behind},
        {"reader_to_writer", one_before_reading, other_behind_writing},
    };
    must_be(sem_init(&inside, 0, 0) == 0);
    run_chosen(cases);
    return 0;
}
