/* Many threads alive at once: nobody goes on before the last one is there.
 * usage: crowd THREADS
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_there = PTHREAD_COND_INITIALIZER;
static unsigned fingerprint = 2166136261u;
static int count;
static int there;

static void *stand(void *argument)
{
    pthread_mutex_lock(&lock);
    there++;
    if (there == count)
        pthread_cond_broadcast(&all_there);
    while (there < count)
        pthread_cond_wait(&all_there, &lock);
    fingerprint = (fingerprint ^ (unsigned)(long)argument) * 16777619u;
    pthread_mutex_unlock(&lock);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_attr_t small;
    if (argc != 2)
        return 2;
    count = atoi(argv[1]);
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (long i = 0; i < count; i++)
        if (pthread_create(&threads[i], &small, stand, (void *)i) != 0)
            return 3;
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    printf("%d were there, order %08x\n", there, fingerprint);
    return 0;
}
