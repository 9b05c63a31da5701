// Mappings at the same place, one after the other: what the first thread did with its own has nothing
// to do with that of the second. No event leads from one to the other; time alone does.
#include "twins.h"
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <time.h>

enum { PAGE = 4096, PAGES = 8 };

static int contents;
static char *places[2];
static char *lasting;

static void later(void)
{
    struct timespec while_the_other_does = {0, 100 * 1000 * 1000};
    nanosleep(&while_the_other_does, NULL);
}

static void look_through(int which, char *place, long bytes)
{
    places[which] = place;
    for (long at = 0; at < bytes; at += 64)
        must_be(((volatile char *)place)[at] == 'c');
}

static void file(int which)
{
    char *place = mmap(NULL, PAGES * PAGE, PROT_READ, MAP_PRIVATE, contents, 0);
    must_be(place != MAP_FAILED);
    look_through(which, place, PAGES * PAGE);
    must_be(munmap(place, PAGES * PAGE) == 0);
}

static char *filled(long bytes)
{
    char *place = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must_be(place != MAP_FAILED);
    memset(place, 'c', bytes);
    return place;
}

static void memory(int which)
{
    char *place = filled(PAGES * PAGE);
    look_through(which, place, PAGES * PAGE);
    must_be(munmap(place, PAGES * PAGE) == 0);
}

// The second one's comes to the place of the first one's, with its contents, and more of them than there were.
static void moved(int which)
{
    if (which == 0)
        return memory(0);
    char *small = filled(PAGE);
    char *place = mremap(small, PAGE, PAGES * PAGE, MREMAP_MAYMOVE);
    must_be(place != MAP_FAILED);
    memset(place + PAGE, 'c', (PAGES - 1) * PAGE);
    look_through(1, place, PAGES * PAGE);
    must_be(munmap(place, PAGES * PAGE) == 0);
}

// The second one grows the place where it is.
static void grown(int which)
{
    if (which == 0) {
        look_through(0, lasting, PAGES * PAGE);
        must_be(munmap(lasting + PAGE, (PAGES - 1) * PAGE) == 0);
        return;
    }
    must_be(mremap(lasting, PAGE, PAGES * PAGE, 0) == lasting);
    memset(lasting + PAGE, 'c', (PAGES - 1) * PAGE);
    look_through(1, lasting, PAGES * PAGE);
}

static void attached(int which)
{
    int segment = shmget(IPC_PRIVATE, PAGES * PAGE, IPC_CREAT | 0600);
    must_be(segment >= 0);
    char *place = shmat(segment, NULL, 0);
    must_be(place != (char *)-1 && shmctl(segment, IPC_RMID, NULL) == 0);
    memset(place, 'c', PAGES * PAGE);
    look_through(which, place, PAGES * PAGE);
    must_be(shmdt(place) == 0);
}

// What both have is no other's.
static void both(int which)
{
    volatile char *place = lasting;
    if (which == 0)
        place[PAGE] = 1; // race one
    else
        place[PAGE] = 2; // race other
}

static void (*how)(int which);

static void *one(void *argument)
{
    how(0);
    return argument;
}

static void *other(void *argument)
{
    later();
    how(1);
    return argument;
}

// CASE file|memory|moved|grown|attached|both
int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*how)(int which);
    } cases[] = {
        {"file", file}, {"memory", memory}, {"moved", moved}, {"grown", grown}, {"attached", attached}, {"both", both},
    };
    const char *name = word(argc, argv, 1, "");
    for (size_t at = 0; at < sizeof(cases) / sizeof *cases; at++)
        if (is(cases[at].name, name))
            how = cases[at].how;
    must_be(how != NULL);
    lasting = filled(PAGES * PAGE);
    contents = memfd_create("contents", 0);
    must_be(contents >= 0 && write(contents, lasting, PAGES * PAGE) == PAGES * PAGE);
    side_by_side(one, other, NULL);
    printf("%s, %s\n", name, places[0] == places[1] ? "at the same place" : "at two places");
    return 0;
}
