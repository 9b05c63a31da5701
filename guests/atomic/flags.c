// A thread that hands tasks to others by a flag of each, and waits for them, as servers do with
// threads that read and write for them: all look at flags in loops, with plain loads, and who
// comes first comes out otherwise each time.
#include "../transcript.h"
#include <stdatomic.h>

enum { CREW_MAX = 16, LINE = 64 };

static struct {
    _Alignas(LINE) atomic_ulong pending;
    unsigned long done;
} workers[CREW_MAX];
static _Alignas(LINE) atomic_ulong next;
static struct transcript transcript;
static int rounds, crew_size;

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (;;) {
        unsigned long task;
        while ((task = atomic_load_explicit(&workers[who].pending, memory_order_acquire)) == 0)
            __builtin_ia32_pause();
        if (task == ~0ul)
            return NULL;
        if (task % 4 == 0)
            jitter();
        workers[who].done = task * 100 + atomic_fetch_add(&next, 1) % 100;
        atomic_store_explicit(&workers[who].pending, 0, memory_order_release);
    }
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    crew_size = number(argc, argv, 1, 2);
    rounds = number(argc, argv, 2, 100);
    pthread_t threads[CREW_MAX];
    for (intptr_t who = 0; who < crew_size; who++)
        pthread_create(&threads[who], NULL, worker, (void *)who);
    for (int round = 0; round < rounds; round++) {
        for (int who = 0; who < crew_size; who++)
            atomic_store_explicit(&workers[who].pending, (unsigned long)(round + who + 1), memory_order_release);
        for (int who = 0; who < crew_size; who++) {
            while (atomic_load_explicit(&workers[who].pending, memory_order_acquire))
                ;
            note(&transcript, workers[who].done);
        }
    }
    for (int who = 0; who < crew_size; who++)
        atomic_store_explicit(&workers[who].pending, ~0ul, memory_order_release);
    for (int who = 0; who < crew_size; who++)
        pthread_join(threads[who], NULL);
    show("flags", &transcript);
    return 0;
}
