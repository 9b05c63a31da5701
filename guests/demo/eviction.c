/* The tutorial's bug: a cache that is right at every single step and wrong as a
 * whole. A thread looks an entry up under the lock, lets the lock go, takes it
 * again and uses the entry. In between, rarely, another thread evicted it.
 *
 * No data race: every access happens under the lock. Only the order is bad.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, LOOKUPS = 250, SLOTS = 64, KEYS = 72 };

struct entry {
    int key;
    long uses;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *cache[SLOTS];
static int oldest;
static long evictions;

static int find(int key)
{
    for (int slot = 0; slot < SLOTS; slot++)
        if (cache[slot] && cache[slot]->key == key)
            return slot;
    return -1;
}

static int insert(int key)
{
    int slot = oldest;
    oldest = (oldest + 1) % SLOTS;
    if (cache[slot]) {
        free(cache[slot]);
        cache[slot] = NULL;
        evictions++;
        return -1; /* this time the caller goes without: the slot is free for the next one */
    }
    cache[slot] = calloc(1, sizeof *cache[slot]);
    cache[slot]->key = key;
    return slot;
}

static unsigned next(unsigned *dice)
{
    *dice = *dice * 1664525u + 1013904223u;
    return *dice >> 16;
}

static void *use(void *argument)
{
    unsigned dice = (unsigned)(long)argument;
    for (int i = 0; i < LOOKUPS; i++) {
        int key = (int)(next(&dice) % KEYS);
        pthread_mutex_lock(&lock);
        int slot = find(key);
        if (slot < 0)
            slot = insert(key);
        pthread_mutex_unlock(&lock);
        if (slot < 0)
            continue;
        pthread_mutex_lock(&lock);
        cache[slot]->uses++;
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, use, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%ld evictions\n", evictions);
    return 0;
}
