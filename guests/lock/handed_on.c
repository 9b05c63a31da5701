// Mutexes that somebody else unlocks: not what POSIX allows, but glibc's normal
// ones take it, and programs use them so, as semaphores of two values. In each pair
// one thread locks and the other one unlocks, while all fight for the one turn. Or
// one thread opens a gate for all others whenever it finds it shut: nothing that a
// replay has to wait for comes before that but the lock of the gate itself. Only that
// thread notes anything, what it found: whoever went through is in nobody's way.
#include "../transcript.h"

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t told[MOST_THREADS], done[MOST_THREADS];
static int rounds, others, gate;
static struct transcript transcript;

static void *locker(int pair)
{
    for (int round = 0; round < rounds; round++) {
        jitter();
        must(pthread_mutex_lock(&turn));
        note(&transcript, pair);
        must(pthread_mutex_unlock(&told[pair]));
        must(pthread_mutex_lock(&done[pair]));
    }
    return NULL;
}

static void *unlocker(int pair)
{
    for (int round = 0; round < rounds; round++) {
        must(pthread_mutex_lock(&told[pair]));
        note(&transcript, pair);
        must(pthread_mutex_unlock(&turn));
        jitter();
        must(pthread_mutex_unlock(&done[pair]));
    }
    return NULL;
}

static void *goes_through(void)
{
    for (int round = 0; round < rounds; round++) {
        jitter();
        must(pthread_mutex_lock(&turn));
    }
    return NULL;
}

static void *opens(void)
{
    for (int opened = 0; opened < others * rounds; opened++) {
        while (pthread_mutex_trylock(&turn) == 0) {
            must(pthread_mutex_unlock(&turn));
            note(&transcript, 1);
            pause_for(10000);
        }
        note(&transcript, 0);
        // Whoever shut it may still be in its lock.
        pause_for(5000000);
        must(pthread_mutex_unlock(&turn));
    }
    return NULL;
}

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    if (gate)
        return who == 0 ? opens() : goes_through();
    return who % 2 ? unlocker(who / 2) : locker(who / 2);
}

// THREADS ROUNDS pairs|gate
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4) & ~1;
    rounds = number(argc, argv, 2, 100);
    gate = is(word(argc, argv, 3, "pairs"), "gate");
    others = threads - 1;
    for (int pair = 0; pair < threads / 2; pair++) {
        must(pthread_mutex_init(&told[pair], NULL));
        must(pthread_mutex_init(&done[pair], NULL));
        must(pthread_mutex_lock(&told[pair]));
        must(pthread_mutex_lock(&done[pair]));
    }
    crew(threads, worker);
    show("order", &transcript);
    return 0;
}
