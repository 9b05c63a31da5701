// Threads that are cancelled before their first operation on a stream begins: it has allocated the
// stream's buffer by the time that it looks, and leaves the line for whoever comes next.
#include "../transcript.h"
#include <semaphore.h>

static FILE *input;
static sem_t cancelled;

static void left(void *argument)
{
    (void)argument;
    puts("left");
}

static void *worker(void *argument)
{
    char line[64];
    pthread_cleanup_push(left, NULL);
    must(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL));
    must_be(sem_wait(&cancelled) == 0);
    must(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL));
    must_be(fgets(line, sizeof line, input) == NULL);
    pthread_cleanup_pop(0);
    return argument;
}

// ROUNDS
int main(int argc, char **argv)
{
    int rounds = number(argc, argv, 1, 10);
    must_be(sem_init(&cancelled, 0, 0) == 0);
    for (int round = 0; round < rounds; round++) {
        int ends[2];
        char line[64];
        pthread_t thread;
        void *result;
        must_be(pipe(ends) == 0);
        must_be((input = fdopen(ends[0], "r")) != NULL);
        must(pthread_create(&thread, NULL, worker, NULL));
        must_be(write(ends[1], "a line\n", 7) == 7);
        jitter();
        must(pthread_cancel(thread));
        must_be(sem_post(&cancelled) == 0);
        must(pthread_join(thread, &result));
        must_be(result == PTHREAD_CANCELED);
        must_be(fgets(line, sizeof line, input) != NULL);
        printf("%d %s", round, line);
        must_be(fclose(input) == 0);
        must_be(close(ends[1]) == 0);
    }
    return 0;
}
