// Processes that die of a signal: what the thread did that it struck counts, up to the
// access that was at fault.
//
// Nothing in a replay orders the two threads, and nobody sleeps there: so what one does
// before it ends and what the other does first of all are one segment each.
#include "twins.h"
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct object {
    void (*call)(void);
};

static volatile int shared, ready, *page, *file;
static struct object *object;
static const char *how;
static sem_t done;

static void die(void)
{
    static volatile int zero;
    if (is(how, "fault"))
        *(volatile int *)8 = 1;
    else if (is(how, "division"))
        zero = how[0] / zero;
    else if (is(how, "instruction"))
        __builtin_trap();
    else if (is(how, "behind_file"))
        *file = 1;
    else if (is(how, "aborts"))
        abort();
    else if (is(how, "raises"))
        raise(SIGTERM);
    else if (is(how, "kills"))
        kill(getpid(), SIGUSR1);
    else if (is(how, "kills_thread"))
        pthread_kill(pthread_self(), SIGRTMIN);
    else
        for (;;)
            pause();
}

static void *beside(void *argument)
{
    shared = 1; // race beside
    return argument;
}

static void *dying(void *argument)
{
    usleep(20000);
    shared = 2; // race before_end
    die();
    return argument;
}

static void *reading_page(void *argument)
{
    return *page ? argument : NULL; // race read_of_page
}

static void *writing_page(void *argument)
{
    usleep(20000);
    must_be(mprotect((void *)page, 4096, PROT_READ) == 0);
    *page = 1; // race fault_itself
    return argument;
}

static void *freeing(void *argument)
{
    free(object); // race freed
    return argument;
}

static void *calling(void *argument)
{
    usleep(20000);
    object->call(); // race used
    return argument;
}

// The recording lives: there the other one was first.
static void *telling(void *argument)
{
    ready = 1; // race told
    return argument;
}

static void *asking(void *argument)
{
    usleep(50000);
    if (!ready) // race asked
        *(volatile int *)8 = 1;
    return argument;
}

static int deeper(int level)
{
    volatile char room[4096] = {0};
    room[level % 4096] = 1;
    if (level < 0)
        return room[0];
    return deeper(level + 1) + room[(level + 1) % 4096];
}

static void *done_beside(void *argument)
{
    shared = 1; // race done_beside
    post(&done);
    return argument;
}

// The kernel has no room for a handler's frame.
static void *overflowing(void *argument)
{
    shared = 2; // race before_overflow
    await(&done);
    return deeper(0) ? argument : NULL;
}

static void nothing(void)
{
}

static void prepare(void)
{
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    file = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(tmpfile()), 0);
    must_be(page != MAP_FAILED && file != MAP_FAILED);
    object = malloc(sizeof *object);
    object->call = nothing;
    must_be(sem_init(&done, 0, 0) == 0);
    if (is(how, "alarm"))
        alarm(1);
}

int main(int argc, char **argv)
{
    static const struct twins all[] = {
        {"page", reading_page, writing_page},
        {"freed", freeing, calling},
        {"replay_alone", telling, asking},
        {"overflow", done_beside, overflowing},
    };
    how = word(argc, argv, 1, "");
    prepare();
    for (size_t at = 0; at < sizeof all / sizeof *all; at++)
        if (is(all[at].name, how))
            return side_by_side(all[at].one, all[at].other, NULL), 0;
    side_by_side(beside, dying, NULL);
    return 0;
}
