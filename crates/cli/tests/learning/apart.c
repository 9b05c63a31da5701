// Threads that each count in objects of their own: two that shared a clock in a replay, and did not in the recording, would be in
// no order there.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, OBJECTS = 500, ROUNDS = 100, ROOM = 1 << 22 };

static char *objects[THREADS];

static void *count(void *number)
{
    char *own = objects[(long)number];
    for (int i = 0; i < ROUNDS; i++) {
        unsigned place = (unsigned)(long)number;
        for (int k = 0; k < OBJECTS; k++) {
            place = place * 1103515245 + 12345;
            __sync_fetch_and_add((int *)(own + place / 64 % (ROOM / 64) * 64), 1);
        }
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        objects[i] = aligned_alloc(64, ROOM);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, count, (void *)i);
    for (long i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    puts("counted");
    return 0;
}
