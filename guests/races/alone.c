// What one thread does before there is another, and the same code when there is.
#include "twins.h"
#include <stdatomic.h>
#include <sys/wait.h>

#define ROUNDS 1000

static volatile int shared, early;
static atomic_int published;
static char *block;

static void *store(void *argument)
{
    for (int round = 0; round < ROUNDS; round++)
        shared = round; // race store
    return argument;
}

// Ran often before it races.
static void same_code(void)
{
    store(NULL);
    pthread_t thread = started(store);
    store(NULL);
    ended(thread);
}

static void before(void)
{
    store(NULL);
    ended(started(store));
}

// Alone once more, and no longer.
static void again(void)
{
    ended(started(idle));
    store(NULL);
    pthread_t thread = started(store);
    store(NULL);
    ended(thread);
}

static void in_child(void)
{
    store(NULL);
    pid_t child = fork();
    if (child == 0) {
        same_code();
        _exit(0);
    }
    must_be(waitpid(child, NULL, 0) == child);
}

static void *publish(void *argument)
{
    early = 1;
    atomic_store_explicit(&published, 2, memory_order_release); // race published
    return argument;
}

// The only locked instruction comes before the threads; what they do is plain moves.
static void variable(void)
{
    atomic_exchange(&published, 1);
    pthread_t thread = started(publish);
    if (atomic_load_explicit(&published, memory_order_acquire) == 2) // race seen
        must_be(early == 1);
    ended(thread);
}

static void *user(void *argument)
{
    *(volatile char *)(block + 50) = 1; // race user
    return argument;
}

static void freed(void)
{
    block = malloc(5000);
    must_be(block != NULL);
    free(block); // race freed
    ended(started(user));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"same_code", same_code}, {"before", before}, {"again", again},
        {"in_child", in_child}, {"variable", variable}, {"freed", freed},
    };
    for (size_t at = 0; at < sizeof cases / sizeof *cases; at++)
        if (is(cases[at].name, word(argc, argv, 1, "")))
            return cases[at].run(), 0;
    return 98;
}
