// Memory that is freed: by one thread for another to get, too early, twice used.
#include "twins.h"
#include <malloc.h>
#include <sys/mman.h>

// Too large for a thread's own cache, so that the next thread gets it.
#define BLOCK 5000
// Mapped for itself.
#define LARGE (1 << 20)
#define ROUNDS 200

static char *block, *old;
static size_t bytes;
static pthread_barrier_t both;
static sem_t first;

static void fill(volatile char *it, size_t count)
{
    for (size_t at = 0; at < count; at += 100)
        it[at] = 1;
}

// The same addresses, one thread after the other, with nothing that orders the threads but the heap.
static void *borrower(void *argument)
{
    pthread_barrier_wait(&both);
    for (int round = 0; round < ROUNDS; round++) {
        char *it = malloc(bytes);
        must_be(it != NULL);
        fill(it, bytes);
        free(it);
    }
    return argument;
}

static void *zeroed_borrower(void *argument)
{
    pthread_barrier_wait(&both);
    for (int round = 0; round < ROUNDS; round++) {
        char *it = calloc(1, bytes), *more = realloc(it, bytes * 2);
        must_be(it != NULL && more != NULL);
        fill(more, bytes * 2);
        free(more);
    }
    return argument;
}

static void *mapper(void *argument)
{
    pthread_barrier_wait(&both);
    for (int round = 0; round < ROUNDS; round++) {
        void *it = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        must_be(it != MAP_FAILED);
        fill(it, 8192);
        must_be(munmap(it, 8192) == 0);
    }
    return argument;
}

static void *breaker(void *argument)
{
    pthread_barrier_wait(&both);
    for (int round = 0; round < ROUNDS; round++) {
        char *it = aligned_alloc(64, 5120);
        must_be(it != NULL);
        fill(it, 5120);
        free(it);
    }
    return argument;
}

// Malloc and free are no lock: what stands around them is not ordered.
static void *one_around(void *argument)
{
    block[0] = 1; // race one_around
    free(malloc(100));
    pthread_barrier_wait(&both);
    return argument;
}

static void *other_around(void *argument)
{
    free(malloc(100));
    *(volatile char *)block = 2; // race other_around
    pthread_barrier_wait(&both);
    return argument;
}

static void *user(void *argument)
{
    *(volatile char *)(block + 50) = 1; // race user
    return argument;
}

static void *freer(void *argument)
{
    free(block); // race freer
    return argument;
}

// Surely too late, and not ordered all the same: the reader posts nothing, the freeing thread does before it frees.
static void *announcing_freer(void *argument)
{
    post(&first);
    free(block); // race announcing_freer
    return argument;
}

static void *late_reader(void *argument)
{
    await(&first);
    (void)*(volatile char *)(block + 50); // race late_reader
    return argument;
}

static void *handing_user(void *argument)
{
    *(volatile char *)(block + 50) = 1;
    post(&first);
    return argument;
}

static void *handed_freer(void *argument)
{
    await(&first);
    free(block);
    return argument;
}

// Whoever comes first, it is the old block that is written.
static void *user_of_old(void *argument)
{
    *(volatile char *)(old + 50) = *(char *volatile *)&block != NULL; // race user_of_old
    return argument;
}

// The new block goes elsewhere.
static void *grower(void *argument)
{
    block = realloc(block, 10 * BLOCK); // race grower
    return argument;
}

// Ordered and wrong: a use after the free, of which no other thread is guilty.
static void *own_user_after_free(void *argument)
{
    char *volatile it = malloc(BLOCK);
    it[60] = 1;
    free(it);
    (void)*(volatile char *)(it + 60);
    return argument;
}

int main(int argc, char **argv)
{
    static const struct twins cases[] = {
        {"reused", borrower, borrower},
        {"reused_large", borrower, borrower},
        {"reused_small", borrower, borrower},
        {"reused_zeroed", zeroed_borrower, zeroed_borrower},
        {"reused_aligned", breaker, breaker},
        {"mapped", mapper, mapper},
        {"no_lock", one_around, other_around},
        {"free", user, freer},
        {"late", late_reader, announcing_freer},
        {"handed", handing_user, handed_freer},
        {"realloc", user_of_old, grower},
        {"own", own_user_after_free, own_user_after_free},
    };
    const char *name = word(argc, argv, 1, "");
    // One arena: what a thread frees is what the other one gets.
    if (strncmp(name, "reused", 6) == 0)
        must_be(mallopt(M_ARENA_MAX, 1) == 1);
    bytes = is(name, "reused_large") ? LARGE : is(name, "reused_small") ? 24 : BLOCK;
    must(pthread_barrier_init(&both, NULL, 2));
    must_be(sem_init(&first, 0, 0) == 0);
    old = block = malloc(BLOCK);
    must_be(block != NULL);
    run_chosen(cases);
    return 0;
}
