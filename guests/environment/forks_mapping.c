// Processes are forked while other threads map and unmap memory. A child must find the memory that the recorded order
// says: it maps memory itself, by the holes that it finds, and tells the addresses to its parent. The parent's transcript
// holds them in the order of the forks.
//
// usage: forks_mapping THREADS FORKS

#include "../transcript.h"
#include <sys/mman.h>
#include <sys/wait.h>

enum { HELD = 8 };

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static int over;

static int is_over(void)
{
    must(pthread_mutex_lock(&guard));
    int now = over;
    must(pthread_mutex_unlock(&guard));
    return now;
}

static uintptr_t map(size_t pages)
{
    char *memory = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must_be(memory != MAP_FAILED);
    memory[0] = 1;
    return (uintptr_t)memory;
}

static void *mapper(void *seed)
{
    uintptr_t held[HELD] = {0};
    for (unsigned turn = (unsigned)(uintptr_t)seed; !is_over(); turn++) {
        unsigned at = turn % HELD;
        size_t pages = 1 + at % 5;
        if (held[at])
            must_be(munmap((void *)held[at], pages * 4096) == 0);
        held[at] = map(pages);
    }
    return NULL;
}

static void child(int out)
{
    uint64_t found = 0;
    for (size_t i = 0; i < 2 * HELD; i++)
        found = fold(found, map(1 + i % 5));
    must_be(write(out, &found, sizeof found) == sizeof found);
    _exit(0);
}

int main(int count, char **arguments)
{
    pthread_t threads[MOST_THREADS];
    struct transcript transcript = {0};
    if (count != 3)
        return 2;
    int wanted = atoi(arguments[1]), forks = atoi(arguments[2]);
    for (int i = 0; i < wanted; i++)
        must(pthread_create(&threads[i], NULL, mapper, (void *)(uintptr_t)i));
    for (int i = 0; i < forks; i++) {
        int ends[2], status;
        uint64_t found;
        must_be(pipe(ends) == 0);
        pid_t forked = fork();
        if (forked == 0)
            child(ends[1]);
        must_be(forked > 0 && read(ends[0], &found, sizeof found) == sizeof found);
        must_be(waitpid(forked, &status, 0) == forked && status == 0);
        close(ends[0]);
        close(ends[1]);
        note(&transcript, found);
    }
    must(pthread_mutex_lock(&guard));
    over = 1;
    must(pthread_mutex_unlock(&guard));
    for (int i = 0; i < wanted; i++)
        must(pthread_join(threads[i], NULL));
    show("forks_mapping", &transcript);
    return 0;
}
