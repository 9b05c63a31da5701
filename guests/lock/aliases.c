// The other names and versions of the same functions, which old binaries are bound
// to: the __pthread_ aliases, and the first version of the condition variables.
#include "../transcript.h"

#define OLD(name, alias) __asm__(".symver " #alias "," #name "@GLIBC_2.2.5")

extern int old_lock(pthread_mutex_t *);
extern int old_trylock(pthread_mutex_t *);
extern int old_unlock(pthread_mutex_t *);
extern int old_once(pthread_once_t *, void (*)(void));
extern int old_wrlock(pthread_rwlock_t *);
extern int old_rdlock(pthread_rwlock_t *);
extern int old_rwunlock(pthread_rwlock_t *);
extern int old_wait(pthread_cond_t *, pthread_mutex_t *);
extern int old_timedwait(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
extern int old_signal(pthread_cond_t *);
extern int old_broadcast(pthread_cond_t *);
OLD(__pthread_mutex_lock, old_lock);
OLD(__pthread_mutex_trylock, old_trylock);
OLD(__pthread_mutex_unlock, old_unlock);
OLD(__pthread_once, old_once);
OLD(__pthread_rwlock_wrlock, old_wrlock);
OLD(__pthread_rwlock_rdlock, old_rdlock);
OLD(__pthread_rwlock_unlock, old_rwunlock);
OLD(pthread_cond_wait, old_wait);
OLD(pthread_cond_timedwait, old_timedwait);
OLD(pthread_cond_signal, old_signal);
OLD(pthread_cond_broadcast, old_broadcast);

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t condition;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int threads;
static int rounds;
static int turn;
static struct transcript transcript;
static struct transcript written;
static uint64_t seen[MOST_THREADS];

static void first(void)
{
    must(old_lock(&mutex));
    note(&transcript, 35);
    must(old_unlock(&mutex));
}

static void take_turns(int who)
{
    must(old_lock(&mutex));
    while (turn % threads != who) {
        struct timespec until = in_microseconds(CLOCK_REALTIME, 100);
        int error = who % 2 ? old_wait(&condition, &mutex) : old_timedwait(&condition, &mutex, &until);
        must_be(error == 0 || error == ETIMEDOUT);
        note(&transcript, who);
    }
    turn++;
    must(who % 2 ? old_broadcast(&condition) : threads == 2 ? old_signal(&condition) : old_broadcast(&condition));
    must(old_unlock(&mutex));
}

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        must(old_once(&once, first));
        while (old_trylock(&mutex) != 0)
            jitter();
        note(&transcript, who);
        must(old_unlock(&mutex));
        if ((who + round) % 3 == 0) {
            must(old_wrlock(&rwlock));
            note(&written, who);
        } else {
            must(old_rdlock(&rwlock));
            seen[who] = fold(seen[who], written.hash);
        }
        must(old_rwunlock(&rwlock));
        jitter();
        if (round % 10 == 0)
            take_turns(who);
    }
    return NULL;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 50);
    crew(threads, worker);
    show("order", &transcript);
    show("written", &written);
    for (int who = 0; who < threads; who++)
        printf("seen %d %016llx\n", who, (unsigned long long)seen[who]);
    return 0;
}
