// Main ends the process with output left to be written, while others go on locking
// as fast as they can: what they do beside the last write comes behind all of main's
// operations, and belongs to the recording.
#include "../transcript.h"

static unsigned long turns[MOST_THREADS];

static void *worker(void *argument)
{
    pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    unsigned long *turn = &turns[(intptr_t)argument];
    for (;;) {
        must(pthread_mutex_lock(&own));
        (*(volatile unsigned long *)turn)++;
        must(pthread_mutex_unlock(&own));
    }
}

// THREADS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 2);
    pthread_t id;
    for (int who = 0; who < threads; who++)
        must(pthread_create(&id, NULL, worker, (void *)(intptr_t)who));
    pause_for(2000000);
    // In a buffer up to the very end.
    for (int line = 0; line < 40; line++)
        printf("line %d\n", line);
    return 0;
}
