// Many threads, many accesses: what a bounded history or four cells a word would forget.
#include "twins.h"

#define THREADS 20
#define MUCH 100000
#define LINES 4096

static volatile int shared, slots[THREADS];
static volatile char lines[2][LINES * 64];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t first, go;

static void *all_same(void *argument)
{
    shared = (int)(intptr_t)argument; // race all_same
    return argument;
}

static void *all_apart(void *argument)
{
    for (int round = 0; round < 100; round++)
        slots[(intptr_t)argument] = round;
    return argument;
}

static void *all_locked(void *argument)
{
    for (int round = 0; round < 20; round++) {
        must(pthread_mutex_lock(&mutex));
        shared = round;
        must(pthread_mutex_unlock(&mutex));
    }
    return argument;
}

// Two of the twenty race, and only they.
static void *only_two(void *argument)
{
    int who = (int)(intptr_t)argument;
    if (who == 3)
        shared = 1; // race third
    else if (who == 17)
        shared = 2; // race seventeenth
    else
        slots[who] = 1;
    return argument;
}

static void busy(int which)
{
    for (int at = 0; at < MUCH; at++)
        lines[which][at * 64 % (LINES * 64) + at % 64] = 1;
}

// Long ago in one thread, and at last in the other.
static void *early_writer(void *argument)
{
    shared = 1; // race early
    post(&first);
    busy(0);
    return argument;
}

static void *late_writer(void *argument)
{
    busy(1);
    shared = 2; // race late
    return argument;
}

// Behind many segments: each of the rounds ends one.
static void *early_with_segments(void *argument)
{
    shared = 1; // race early_segment
    for (int round = 0; round < 2000; round++) {
        must(pthread_mutex_lock(&mutex));
        slots[0] = round;
        must(pthread_mutex_unlock(&mutex));
    }
    return argument;
}

static pthread_mutex_t mutex_of_other = PTHREAD_MUTEX_INITIALIZER;

static void *late_with_segments(void *argument)
{
    for (int round = 0; round < 2000; round++) {
        must(pthread_mutex_lock(&mutex_of_other));
        slots[1] = round;
        must(pthread_mutex_unlock(&mutex_of_other));
    }
    shared = 2; // race late_segment
    return argument;
}

// One reader that races among many that do not: they were joined before the writer began.
static void *racing_reader(void *argument)
{
    (void)shared;
    post(&first);
    await(&go);
    return argument;
}

static void *joined_reader(void *argument)
{
    for (int round = 0; round < 100; round++)
        (void)shared;
    return argument;
}

static void *writer(void *argument)
{
    shared = 1; // race writer
    return argument;
}

static void crowded(void)
{
    pthread_t reader, writing;
    must(pthread_create(&reader, NULL, racing_reader, NULL));
    await(&first);
    (void)shared;
    crew(8, joined_reader);
    must(pthread_create(&writing, NULL, writer, NULL));
    must(pthread_join(writing, NULL));
    post(&go);
    must(pthread_join(reader, NULL));
}

// The reader's post comes after its read: that orders it with main and all that main creates.
static void *unposting_reader(void *argument)
{
    post(&first);
    (void)shared; // race unposting_reader
    await(&go);
    return argument;
}

static void crowded_racing(void)
{
    pthread_t reader, writing;
    must(pthread_create(&reader, NULL, unposting_reader, NULL));
    await(&first);
    crew(8, joined_reader);
    must(pthread_create(&writing, NULL, writer, NULL));
    must(pthread_join(writing, NULL));
    post(&go);
    must(pthread_join(reader, NULL));
}

// In two places through one inlined function: the innermost frame is the function's line.
__attribute__((always_inline)) static inline void put(volatile int *where, int what)
{
    *where = what; // race put
}

static void *one_inlined(void *argument)
{
    put(&shared, 1);
    return argument;
}

static void *other_inlined(void *argument)
{
    put(&shared, 2);
    return argument;
}

// The same value from both is no excuse.
static void *same_value(void *argument)
{
    shared = 42; // race same_value
    return argument;
}

// Many bytes of one pair of lines are one race.
static void *fill_all(void *argument)
{
    for (int at = 0; at < 1000; at++)
        lines[0][at * 3] = 1; // race fill_all
    return argument;
}

// More bytes than there is room for accesses.
#define ALL 300000
static volatile char all[ALL];

static void *write_all(void *argument)
{
    for (int byte = 0; byte < ALL; byte++)
        all[byte] = 1; // race one_of_all
    return argument;
}

static void *write_all_too(void *argument)
{
    for (int byte = 0; byte < ALL; byte++)
        all[byte] = 2; // race other_of_all
    return argument;
}

static void *read_all(void *argument)
{
    for (int at = 0; at < 3000; at++)
        (void)lines[0][at]; // race read_all
    return argument;
}

int main(int argc, char **argv)
{
    static const struct twins cases[] = {
        {"early_late", early_writer, late_writer},
        {"segments", early_with_segments, late_with_segments},
        {"inlined", one_inlined, other_inlined},
        {"same_value", same_value, same_value},
        {"many_bytes", fill_all, read_all},
        {"every_byte", write_all, write_all_too},
    };
    const char *name = word(argc, argv, 1, "");
    must_be(sem_init(&first, 0, 0) == 0 && sem_init(&go, 0, 0) == 0);
    if (is(name, "all_same"))
        crew(THREADS, all_same);
    else if (is(name, "all_apart"))
        crew(THREADS, all_apart);
    else if (is(name, "all_locked"))
        crew(THREADS, all_locked);
    else if (is(name, "only_two"))
        crew(THREADS, only_two);
    else if (is(name, "crowded"))
        crowded();
    else if (is(name, "crowded_racing"))
        crowded_racing();
    else
        run_chosen(cases);
    return 0;
}
