// Process-shared objects in an anonymous shared mapping made before the forks, and
// a named semaphore that each process opens by its name.
#include "../transcript.h"
#include <fcntl.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/wait.h>

static struct shared {
    sem_t sem;
    struct transcript in_sem;
    struct transcript in_named;
} *shared;

// PROCESSES ROUNDS
int main(int argc, char **argv)
{
    int processes = number(argc, argv, 1, 3);
    int rounds = number(argc, argv, 2, 50);
    char name[64];
    snprintf(name, sizeof name, "/relive-guest-%d", (int)getpid());
    sem_t *named = sem_open(name, O_CREAT | O_EXCL, 0600, 1);
    must_be(named != SEM_FAILED);
    shared = (struct shared *)mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must_be(shared != MAP_FAILED);
    must_be(sem_init(&shared->sem, 1, 1) == 0);
    for (int child = 0; child < processes; child++) {
        pid_t id = fork();
        must_be(id >= 0);
        if (id != 0)
            continue;
        must_be((named = sem_open(name, 0)) != SEM_FAILED);
        for (int round = 0; round < rounds; round++) {
            must_be(sem_wait(&shared->sem) == 0);
            note(&shared->in_sem, child);
            must_be(sem_post(&shared->sem) == 0);
            jitter();
            must_be(sem_wait(named) == 0);
            note(&shared->in_named, child);
            must_be(sem_post(named) == 0);
        }
        _exit(0);
    }
    for (int child = 0; child < processes; child++) {
        int status;
        must_be(wait(&status) > 0);
        must_be(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    must_be(sem_unlink(name) == 0);
    show("unnamed", &shared->in_sem);
    show("named", &shared->in_named);
    return 0;
}
