// Threads read lines from a pipe that the main thread feeds: a read waits inside the
// stream's lock for what another thread of the program writes. Then one of them is
// cancelled in such a read and must leave the stream unlocked.
#include "../transcript.h"

static FILE *input;
static FILE *output;

static void left(void *argument)
{
    (void)argument;
    puts("left");
}

static void *worker(void *argument)
{
    char line[64];
    pthread_cleanup_push(left, NULL);
    while (fgets(line, sizeof line, input) != NULL)
        printf("%d %s", (int)(intptr_t)argument, line);
    pthread_cleanup_pop(0);
    return NULL;
}

static void join_streams(void)
{
    int ends[2];
    must_be(pipe(ends) == 0);
    must_be((input = fdopen(ends[0], "r")) != NULL);
    must_be((output = fdopen(ends[1], "w")) != NULL);
}

static void cancel_one(void)
{
    join_streams();
    pthread_t thread;
    must(pthread_create(&thread, NULL, worker, NULL));
    fputs("last line\n", output);
    fflush(output);
    pause_for(20000000);
    must(pthread_cancel(thread));
    void *result;
    must(pthread_join(thread, &result));
    must_be(result == PTHREAD_CANCELED);
    must_be(ftrylockfile(input) == 0);
    funlockfile(input);
}

// THREADS LINES
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 3);
    int lines = number(argc, argv, 2, 200);
    pthread_t thread[MOST_THREADS];
    join_streams();
    for (intptr_t who = 0; who < threads; who++)
        must(pthread_create(&thread[who], NULL, worker, (void *)who));
    for (int line = 0; line < lines; line++) {
        fprintf(output, "line %d\n", line);
        if (line % 4 == 0)
            fflush(output);
        jitter();
    }
    fclose(output);
    for (int who = 0; who < threads; who++)
        must(pthread_join(thread[who], NULL));
    fclose(input);
    cancel_one();
    return 0;
}
