// A line that one thread reads in each of its critical sections, and what others do to it: the
// detector notes such reads once.
#include "twins.h"

// More critical sections than it takes, and as many again.
#define ROUNDS 600
// The other thread is done by then.
#define LONG 20000

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t another = PTHREAD_MUTEX_INITIALIZER;
static sem_t half, done;
static _Alignas(64) volatile int table[16];
static int *volatile block;

// A critical section, whose lock orders what the threads do in it.
static void pass(void)
{
    must(pthread_mutex_lock(&mutex));
    must(pthread_mutex_unlock(&mutex));
}

static void read_often(int rounds)
{
    for (int round = 0; round < rounds; round++) {
        must(pthread_mutex_lock(&mutex));
        (void)table[0];
        must(pthread_mutex_unlock(&mutex));
    }
}

static void *reads(void *argument)
{
    for (int round = 0; round < ROUNDS; round++) {
        must(pthread_mutex_lock(&mutex));
        (void)table[0]; // race reads
        must(pthread_mutex_unlock(&mutex));
        if (round == ROUNDS / 2)
            post(&half);
    }
    post(&done);
    return argument;
}

// While the other one reads on.
static void *writes(void *argument)
{
    await(&half);
    table[0] = 1; // race writes
    return argument;
}

static void *writes_beside(void *argument)
{
    await(&half);
    table[1] = 1;
    return argument;
}

static void *writes_locked(void *argument)
{
    await(&half);
    must(pthread_mutex_lock(&mutex));
    table[0] = 1;
    must(pthread_mutex_unlock(&mutex));
    return argument;
}

static void *writes_with_another(void *argument)
{
    await(&half);
    must(pthread_mutex_lock(&another));
    table[0] = 1; // race writes_with_another
    must(pthread_mutex_unlock(&another));
    return argument;
}

static void *writes_behind(void *argument)
{
    await(&done);
    table[0] = 1;
    return argument;
}

// More of the line is read, and some of it written, when it has been read often.
static void *reads_more(void *argument)
{
    read_often(ROUNDS);
    post(&half);
    (void)table[1]; // race reads_more
    pass();
    return argument;
}

static void *writes_more(void *argument)
{
    await(&half);
    table[1] = 1; // race writes_more
    return argument;
}

static void *reads_and_writes(void *argument)
{
    read_often(ROUNDS);
    post(&half);
    table[0] = 1; // race reads_and_writes
    pass();
    return argument;
}

static void *reads_once(void *argument)
{
    await(&half);
    (void)table[0]; // race reads_once
    return argument;
}

// Nothing is released between the write and the wait, which is over by then.
static void *writes_and_waits(void *argument)
{
    read_often(LONG);
    table[0] = 1; // race writes_and_waits
    await(&done);
    pass();
    return argument;
}

static void *reads_and_posts(void *argument)
{
    (void)table[0]; // race reads_and_posts
    post(&done);
    return argument;
}

static void *reads_block(void *argument)
{
    int *mine = block;
    for (int round = 0; round < ROUNDS; round++) {
        must(pthread_mutex_lock(&mutex));
        (void)*(volatile int *)mine; // race reads_block
        must(pthread_mutex_unlock(&mutex));
        if (round == ROUNDS / 2)
            post(&half);
    }
    post(&done);
    return argument;
}

static void *frees(void *argument)
{
    await(&half);
    free(block); // race frees
    return argument;
}

static void *frees_behind(void *argument)
{
    await(&done);
    free(block);
    return argument;
}

int main(int argc, char **argv)
{
    static const struct twins all[] = {
        { "raced", reads, writes },
        { "beside", reads, writes_beside },
        { "locked", reads, writes_locked },
        { "another", reads, writes_with_another },
        { "behind", reads, writes_behind },
        { "more", reads_more, writes_more },
        { "own", reads_and_writes, reads_once },
        { "awaited", writes_and_waits, reads_and_posts },
        { "freed", reads_block, frees },
        { "freed_behind", reads_block, frees_behind },
    };
    must_be(sem_init(&half, 0, 0) == 0 && sem_init(&done, 0, 0) == 0);
    must_be((block = malloc(256)) != NULL);
    *block = 7;
    run_chosen(all);
    return 0;
}
