/* Processes draw tickets and take a lock in memory that they share, all by exchanges and additions that no library makes. How:
   `inherited` by fork, `mapped` by each at a place of its own in a file, `attached` as a segment of System V's, or by
   children that are `killed` while they look at the tickets. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 3, ROUNDS = 4000, PAGE = 4096, KILLED = 20 };

struct shared {
    unsigned long ticket;
    char apart[120];
    int lock;
    unsigned long sum;
};

static unsigned long draw(struct shared *shared, int who, unsigned long hash)
{
    for (int round = 0; round < ROUNDS; round++) {
        hash = hash * 31 + __atomic_fetch_add(&shared->ticket, 1, __ATOMIC_SEQ_CST);
        if (round % 16 == 0) {
            while (__atomic_exchange_n(&shared->lock, 1, __ATOMIC_ACQUIRE))
                ;
            shared->sum = shared->sum * 7 + who;
            hash += shared->sum;
            __atomic_exchange_n(&shared->lock, 0, __ATOMIC_RELEASE);
        }
    }
    return hash;
}

/* The first maps both pages, the others the second one alone. */
static struct shared *map(int who)
{
    int file = open("shared", O_RDWR | O_CREAT, 0600);
    ftruncate(file, 2 * PAGE);
    char *mapped = mmap(NULL, who == 0 ? 2 * PAGE : PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, who == 0 ? 0 : PAGE);
    close(file);
    return (struct shared *)(mapped + (who == 0 ? PAGE : 0));
}

static void say(int who, unsigned long hash)
{
    char line[64];
    write(1, line, sprintf(line, "%d %016lx\n", who, hash));
}

static unsigned long kill_some(struct shared *shared)
{
    unsigned long hash = 0;
    for (int number = 0; number < KILLED; number++) {
        pid_t child = fork();
        while (child == 0)
            __atomic_fetch_add(&shared->ticket, 0, __ATOMIC_SEQ_CST);
        for (int round = 0; round < ROUNDS; round++)
            hash = hash * 31 + __atomic_fetch_add(&shared->ticket, 1, __ATOMIC_SEQ_CST);
        kill(child, SIGKILL);
        for (int round = 0; round < 100; round++)
            hash = hash * 31 + __atomic_fetch_add(&shared->ticket, 1, __ATOMIC_SEQ_CST);
        waitpid(child, NULL, 0);
    }
    return hash;
}

int main(int count, char **arguments)
{
    const char *how = arguments[1];
    int number = count > 2 ? atoi(arguments[2]) : -1;
    struct shared *shared = NULL;
    if (number >= 0) {
        say(number, draw(map(number), number, 0));
        return 0;
    }
    int segment = strcmp(how, "attached") == 0 ? shmget(IPC_PRIVATE, PAGE, IPC_CREAT | 0600) : -1;
    if (segment < 0)
        shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (strcmp(how, "killed") == 0) {
        say(0, kill_some(shared));
        return 0;
    }
    unlink("shared");
    if (segment >= 0)
        shmat(segment, NULL, 0);
    for (int who = 0; who < PROCESSES; who++) {
        if (fork() != 0)
            continue;
        char name[4];
        sprintf(name, "%d", who);
        if (strcmp(how, "mapped") == 0)
            execl(arguments[0], arguments[0], how, name, (char *)NULL);
        if (segment >= 0)
            shared = shmat(segment, NULL, 0);
        say(who, draw(shared, who, 0));
        _exit(0);
    }
    while (wait(NULL) > 0)
        ;
    if (segment >= 0)
        shmctl(segment, IPC_RMID, NULL);
    return 0;
}
