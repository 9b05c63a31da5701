// A read-write lock: writers note, readers fold what they see into a hash of
// their own. Readers run side by side, so only what they saw is ordered.
#include "../transcript.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static const char *how;
static int rounds;
static struct transcript transcript;
static uint64_t seen[MOST_THREADS];
static unsigned long failures[MOST_THREADS];

static int attempt(int way, int write)
{
    struct timespec until;
    switch (way) {
    case 0:
        return write ? pthread_rwlock_wrlock(&lock) : pthread_rwlock_rdlock(&lock);
    case 1:
        return write ? pthread_rwlock_trywrlock(&lock) : pthread_rwlock_tryrdlock(&lock);
    case 2:
        until = in_microseconds(CLOCK_REALTIME, 20);
        return write ? pthread_rwlock_timedwrlock(&lock, &until) : pthread_rwlock_timedrdlock(&lock, &until);
    default:
        until = in_microseconds(CLOCK_MONOTONIC, 20);
        return write ? pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &until)
                     : pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &until);
    }
}

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        int write = (who + round) % 3 == 0;
        int way = is(how, "lock") ? 0 : is(how, "try") ? 1 : is(how, "timed") ? 2 : is(how, "clock") ? 3 : (who + round) % 4;
        int error;
        while ((error = attempt(way, write)) != 0) {
            must_be(error == EBUSY || error == ETIMEDOUT);
            failures[who]++;
            jitter();
        }
        if (write)
            note(&transcript, who);
        else
            seen[who] = fold(seen[who], transcript.hash);
        if (round % 4 == 0)
            jitter();
        must(pthread_rwlock_unlock(&lock));
        jitter();
    }
    return NULL;
}

// THREADS ROUNDS lock|try|timed|clock|mixed static|reader|writer|shared
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 100);
    how = word(argc, argv, 3, "lock");
    const char *kind = word(argc, argv, 4, "static");
    if (!is(kind, "static")) {
        pthread_rwlockattr_t attributes;
        must(pthread_rwlockattr_init(&attributes));
        if (is(kind, "writer"))
            must(pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP));
        if (is(kind, "shared"))
            must(pthread_rwlockattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED));
        must(pthread_rwlock_init(&lock, &attributes));
    }
    crew(threads, worker);
    show("order", &transcript);
    for (int who = 0; who < threads; who++)
        printf("seen %d %016llx failures %lu\n", who, (unsigned long long)seen[who], failures[who]);
    must(pthread_rwlock_destroy(&lock));
    return 0;
}
