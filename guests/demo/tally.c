/* A program with a data race: the sum is under the lock, the count of calls is not. */
#include <pthread.h>
#include <stdio.h>

static long total, calls;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void count(long value) {
    pthread_mutex_lock(&lock);
    total += value;
    pthread_mutex_unlock(&lock);
    calls++;
}

static void *worker(void *argument)
{
    for (long value = 0; value < 1000; value++)
        count(value);
    return argument;
}

int main(void)
{
    pthread_t workers[2];
    for (int n = 0; n < 2; n++)
        pthread_create(&workers[n], NULL, worker, NULL);
    for (int n = 0; n < 2; n++)
        pthread_join(workers[n], NULL);
    printf("%ld in %ld calls\n", total, calls);
    return 0;
}
