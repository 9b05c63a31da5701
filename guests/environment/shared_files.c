// Processes that share memory by files: a mutex, a log and a named semaphore. The log holds who came when, and a child
// maps what its parent has mapped, and written to, before.
//
// usage: shared_files PROCESSES ROUNDS

#include "../transcript.h"
#include <fcntl.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { MOST_ENTRIES = 10000 };

struct common {
    pthread_mutex_t guard;
    int entries;
    int log[MOST_ENTRIES];
};

static struct common *map(const char *name, int how)
{
    int file = shm_open(name, how, 0600);
    must_be(file >= 0);
    if (how & O_CREAT)
        must_be(ftruncate(file, sizeof(struct common)) == 0);
    struct common *common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    must_be(common != MAP_FAILED);
    close(file);
    return common;
}

static void child(int who, int rounds, const char *memory, const char *done)
{
    struct common *common = map(memory, O_RDWR);
    sem_t *semaphore = sem_open(done, 0);
    must_be(semaphore != SEM_FAILED);
    for (int round = 0; round < rounds; round++) {
        must(pthread_mutex_lock(&common->guard));
        common->log[common->entries++] = who;
        must(pthread_mutex_unlock(&common->guard));
        if (round % 10 == 0)
            usleep(100);
    }
    must_be(sem_post(semaphore) == 0);
    _exit(0);
}

int main(int count, char **arguments)
{
    char memory[64], done[64];
    struct transcript transcript = {0};
    pthread_mutexattr_t shared;
    if (count != 3)
        return 2;
    int processes = atoi(arguments[1]), rounds = atoi(arguments[2]);
    must_be(processes * rounds <= MOST_ENTRIES);
    snprintf(memory, sizeof memory, "/shared-files-%d", getpid());
    snprintf(done, sizeof done, "/shared-done-%d", getpid());
    struct common *common = map(memory, O_CREAT | O_EXCL | O_RDWR);
    must(pthread_mutexattr_init(&shared));
    must(pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED));
    must(pthread_mutex_init(&common->guard, &shared));
    sem_t *semaphore = sem_open(done, O_CREAT | O_EXCL, 0600, 0);
    must_be(semaphore != SEM_FAILED);
    for (int who = 0; who < processes; who++) {
        pid_t made = fork();
        must_be(made >= 0);
        if (made == 0)
            child(who, rounds, memory, done);
    }
    for (int who = 0; who < processes; who++) {
        int status;
        must_be(sem_wait(semaphore) == 0);
        must_be(wait(&status) > 0 && status == 0);
    }
    for (int entry = 0; entry < common->entries; entry++)
        note(&transcript, common->log[entry]);
    shm_unlink(memory);
    sem_unlink(done);
    show("shared_files", &transcript);
    return 0;
}
