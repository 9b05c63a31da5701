/* A child counts in memory that it shares with its parent until that says stop, and the parent looks how far it is: plain
   loads and stores, which nothing orders. */
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

// Volatile in code alone: types do not tell.
#define ANEW(variable) (*(volatile __typeof__(variable) *)&(variable))

enum { ROUNDS = 5, LOOKS = 200 };

struct shared {
    int go;
    char apart[60];
    unsigned long count;
    char apart_too[56];
    int stop;
};

static unsigned long count_up(struct shared *shared)
{
    unsigned long own = 0;
    while (!ANEW(shared->go))
        usleep(10);
    while (!ANEW(shared->stop)) {
        ANEW(shared->count)++;
        own = own * 31 + ANEW(shared->count);
    }
    return own;
}

int main(void)
{
    struct shared *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned long seen = 0;
    for (int round = 0; round < ROUNDS; round++) {
        ANEW(shared->go) = ANEW(shared->stop) = 0;
        if (fork() == 0) {
            char line[64];
            write(1, line, sprintf(line, "%d %016lx\n", round, count_up(shared)));
            _exit(0);
        }
        ANEW(shared->go) = 1;
        for (int look = 0; look < LOOKS; look++)
            seen = seen * 31 + ANEW(shared->count);
        usleep(1000);
        ANEW(shared->stop) = 1;
        seen = seen * 31 + ANEW(shared->count);
        wait(NULL);
    }
    printf("%016lx %lu\n", seen, ANEW(shared->count));
    return 0;
}
