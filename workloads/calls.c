// What one cheap operation costs: `calls` prints nanoseconds for each of many.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void ask(long calls)
{
    for (long i = 0; i < calls; i++)
        (void)getppid();
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void lock(long calls)
{
    for (long i = 0; i < calls; i++) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
    }
}

static void allocate(long calls)
{
    // Where the compiler does not see that nobody uses it.
    void *volatile block;
    for (long i = 0; i < calls; i++) {
        block = malloc(40);
        free(block);
    }
}

static void sleep_shortly(long calls)
{
    for (long i = 0; i < calls; i++)
        nanosleep(&(struct timespec){ .tv_nsec = 10000 }, NULL);
}

static void *nothing(void *argument)
{
    return argument;
}

// -n CALLS -w OPERATION
int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(long);
    } operations[] = { { "getppid", ask }, { "lock", lock }, { "malloc", allocate }, { "sleep", sleep_shortly } };
    long calls = 1000000;
    int option, which = 0;
    while ((option = getopt(argc, argv, "n:w:")) != -1) {
        if (option == 'n')
            calls = atol(optarg);
        for (int i = 0; option == 'w' && i < (int)(sizeof operations / sizeof operations[0]); i++)
            if (strcmp(optarg, operations[i].name) == 0)
                which = i;
    }
    // A process that never had a second thread locks without atomic instructions.
    pthread_t thread;
    if (pthread_create(&thread, NULL, nothing, NULL) != 0 || pthread_join(thread, NULL) != 0)
        return 1;
    double start = now();
    operations[which].run(calls);
    printf("calls of=%s n=%ld ns=%.1f\n", operations[which].name, calls, (now() - start) / (double)calls);
    return 0;
}
