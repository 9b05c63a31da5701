// A spin lock made by hand from an atomic flag, held across recorded operations:
// this level cannot order it. A replay ends like the recording or in a divergence
// report that says where a thread spins; never in another result.
#include "../transcript.h"
#include <stdatomic.h>

static atomic_flag flag = ATOMIC_FLAG_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct transcript by_flag;
static struct transcript by_mutex;
static int rounds;

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        while (atomic_flag_test_and_set_explicit(&flag, memory_order_acquire))
            ;
        note(&by_flag, who);
        must(pthread_mutex_lock(&mutex));
        note(&by_mutex, who);
        must(pthread_mutex_unlock(&mutex));
        atomic_flag_clear_explicit(&flag, memory_order_release);
        jitter();
    }
    return NULL;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 50);
    crew(threads, worker);
    show("flag", &by_flag);
    show("mutex", &by_mutex);
    return 0;
}
