// Threads that take from outside at the same time: random numbers, clocks, memory, a file. What each found goes into
// one transcript in the order in which they found it. No thread but the first uses the heap: which of libc's heaps a
// thread gets is not recorded.
//
// usage: crowd THREADS ROUNDS FILE

#include "../transcript.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;
static int rounds;
static const char *file;

static uint64_t taken(int round)
{
    uint64_t dice;
    struct timespec now;
    char text[8] = "";
    if (getrandom(&dice, sizeof dice, 0) != sizeof dice)
        fail(__FILE__, __LINE__, "getrandom", errno);
    must_be(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    int fd = open(file, O_RDONLY);
    long got = pread(fd, text, sizeof text, round % 4);
    close(fd);
    char *memory = mmap(NULL, 4096 << (round % 5), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory[0] = (char)round;
    uint64_t all = fold(fold(dice, now.tv_nsec), (uintptr_t)memory + got + text[0] + memory[0]);
    must_be(munmap(memory, 4096 << (round % 5)) == 0);
    return all;
}

static void *worker(void *unused)
{
    for (int round = 0; round < rounds; round++) {
        uint64_t found = taken(round);
        must(pthread_mutex_lock(&guard));
        note(&transcript, found);
        must(pthread_mutex_unlock(&guard));
    }
    return unused;
}

int main(int count, char **arguments)
{
    pthread_t threads[MOST_THREADS];
    if (count != 4)
        return 2;
    int wanted = atoi(arguments[1]);
    rounds = atoi(arguments[2]);
    file = arguments[3];
    for (int i = 0; i < wanted; i++)
        must(pthread_create(&threads[i], NULL, worker, NULL));
    for (int i = 0; i < wanted; i++)
        must(pthread_join(threads[i], NULL));
    show("crowd", &transcript);
    return 0;
}
