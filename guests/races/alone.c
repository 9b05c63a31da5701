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

static int table[1 << 16], sums[2];

static void *add(void *argument)
{
    int *sum = argument;
    for (size_t at = 0; at < sizeof table / sizeof *table; at += 64)
        *sum += table[at];
    return argument;
}

// Alone again and again, for nothing and for long: what is done then, two threads read, and it what they did.
static void phases(void)
{
    for (int phase = 0; phase < 8; phase++) {
        for (int round = 0; round < phase % 4 * 20; round++)
            for (size_t at = 0; at < sizeof table / sizeof *table; at++)
                table[at] += sums[at % 2] + round;
        pthread_t thread;
        must(pthread_create(&thread, NULL, add, &sums[0]));
        add(&sums[1]);
        ended(thread);
    }
}

// The same, and what they do then races.
static void racing_phases(void)
{
    for (int phase = 0; phase < 8; phase++) {
        for (int round = 0; round < phase % 4 * 100; round++)
            store(NULL);
        same_code();
    }
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

static void *freer(void *argument)
{
    free(block);
    return argument;
}

// A fault, and no race: what one thread does alone is looked at in no part of its life, however long that takes.
static void used_alone(void)
{
    block = malloc(5000);
    must_be(block != NULL);
    ended(started(freer));
    user(NULL);
    for (int round = 0; round < 3000; round++)
        store(NULL);
    ended(started(idle));
    user(NULL);
    ended(started(idle));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"same_code", same_code}, {"before", before}, {"again", again},
        {"in_child", in_child}, {"variable", variable}, {"freed", freed},
        {"phases", phases}, {"racing_phases", racing_phases}, {"used_alone", used_alone},
    };
    for (size_t at = 0; at < sizeof cases / sizeof *cases; at++)
        if (is(cases[at].name, word(argc, argv, 1, "")))
            return cases[at].run(), 0;
    return 98;
}
