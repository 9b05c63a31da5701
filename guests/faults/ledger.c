/* Threads that write a line each under one lock: every prefix of the output
 * tells the order in which the lock was taken so far.
 * usage: ledger THREADS ROUNDS
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned fingerprint = 2166136261u;
static long entries;
static long rounds;

static void *work(void *argument)
{
    int me = (int)(long)argument;
    for (long i = 0; i < rounds; i++) {
        pthread_mutex_lock(&lock);
        fingerprint = (fingerprint ^ (unsigned)me) * 16777619u;
        entries++;
        if (entries % 16 == 0) {
            char line[64];
            int n = snprintf(line, sizeof line, "%ld by %d, order %08x\n", entries, me, fingerprint);
            if (write(1, line, (size_t)n) != n)
                abort();
        }
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[64];
    if (argc != 3 || atoi(argv[1]) > 64)
        return 2;
    rounds = atol(argv[2]);
    for (long i = 0; i < atoi(argv[1]); i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i) != 0)
            return 3;
    for (int i = 0; i < atoi(argv[1]); i++)
        pthread_join(threads[i], NULL);
    printf("done, order %08x\n", fingerprint);
    return 0;
}
