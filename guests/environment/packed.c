/* A program of several files: a library of its own, one that it opens while it runs, and data that it maps. Threads
   share a lock. What it prints tells where all that lies. */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>

int twice(int number);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int sum;
static char order[64];

static void *worker(void *name)
{
    for (int i = 0; i < 10; i++) {
        pthread_mutex_lock(&lock);
        order[sum++] = *(char *)name;
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    if (count < 4)
        return 1;
    int file = open(arguments[1], O_RDONLY);
    const char *data = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED)
        return 2;
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, worker, &"abc"[i]);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    void *opened = dlopen(arguments[2], RTLD_NOW);
    int (*plugged)(int) = opened ? (int (*)(int))dlsym(opened, "plugged") : NULL;
    if (!plugged) {
        fprintf(stderr, "%s\n", dlerror());
        return 3;
    }
    /* The loader has it under another name, and tells by device and inode that it is the same. */
    void *again = dlopen(arguments[3], RTLD_NOW);
    if (!again || dlsym(again, "twice") != (void *)twice)
        return 4;
    printf("%.5s %s %d\n", data, order, plugged(twice(sum)));
    printf("at %p %p %p %p %p\n", (void *)data, (void *)main, (void *)twice, (void *)plugged, malloc(100));
    printf("as %lu %lu %lu\n", getauxval(AT_MINSIGSTKSZ), getauxval(AT_HWCAP2), getauxval(AT_UID));
    return 35;
}
