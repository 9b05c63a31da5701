// Spin locks, by lock and by try.
#include "../transcript.h"

static pthread_spinlock_t lock;
static int by_try;
static int rounds;
static struct transcript transcript;
static unsigned long failures[MOST_THREADS];

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        if (by_try) {
            int error;
            while ((error = pthread_spin_trylock(&lock)) != 0) {
                must_be(error == EBUSY);
                failures[who]++;
                jitter();
            }
        } else {
            must(pthread_spin_lock(&lock));
        }
        note(&transcript, who);
        must(pthread_spin_unlock(&lock));
        jitter();
    }
    return NULL;
}

// THREADS ROUNDS lock|try
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 100);
    by_try = is(word(argc, argv, 3, "lock"), "try");
    must(pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE));
    crew(threads, worker);
    show("order", &transcript);
    for (int who = 0; who < threads; who++)
        printf("failures %d %lu\n", who, failures[who]);
    must(pthread_spin_destroy(&lock));
    return 0;
}
