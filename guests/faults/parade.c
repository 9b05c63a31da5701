/* Two parades of threads, each thread created when the one before it ended,
 * that meet at one lock. The trace grows with every thread.
 * usage: parade THREADS LINE_EVERY [low-limits]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned fingerprint = 2166136261u;
static long passed;
static long count;
static long line_every;

static void *pass(void *argument)
{
    pthread_mutex_lock(&lock);
    fingerprint = (fingerprint ^ (unsigned)(long)argument) * 16777619u;
    passed++;
    if (passed % line_every == 0) {
        char line[64];
        int n = snprintf(line, sizeof line, "%ld passed, order %08x\n", passed, fingerprint);
        if (write(1, line, (size_t)n) != n)
            abort();
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void *lead(void *argument)
{
    for (long i = 0; i < count / 2; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, pass, argument) != 0)
            exit(3);
        pthread_join(thread, NULL);
    }
    return NULL;
}

static void lower(int resource, rlim_t to)
{
    struct rlimit limit = {to, to};
    if (setrlimit(resource, &limit) != 0)
        exit(4);
}

int main(int argc, char **argv)
{
    pthread_t left, right;
    if (argc < 3)
        return 2;
    count = atol(argv[1]);
    line_every = atol(argv[2]);
    if (argc == 4 && strcmp(argv[3], "low-limits") == 0) {
        lower(RLIMIT_FSIZE, 65536); /* less than a trace, more than what this program writes */
        lower(RLIMIT_NOFILE, 4);
    }
    pthread_create(&left, NULL, lead, (void *)1);
    pthread_create(&right, NULL, lead, (void *)2);
    pthread_join(left, NULL);
    pthread_join(right, NULL);
    printf("done, %ld passed, order %08x\n", passed, fingerprint);
    return 0;
}
