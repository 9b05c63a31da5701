// Processes that share System V segments: one by its number, inherited by fork, one by a key, attached by each for
// itself, the first of them in another image. A mutex in one, a semaphore in the other, and logs of who came when.
//
// usage: segments PROCESSES ROUNDS

#include "../transcript.h"
#include <semaphore.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>

enum { MOST_ENTRIES = 10000 };

struct common {
    pthread_mutex_t guard;
    sem_t done;
    int entries;
    int log[MOST_ENTRIES];
};

static void *attach(int segment, void *where, int how)
{
    void *memory = shmat(segment, where, how);
    must_be(memory != (void *)-1);
    return memory;
}

static void prepare(struct common *common)
{
    pthread_mutexattr_t shared;
    must(pthread_mutexattr_init(&shared));
    must(pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED));
    must(pthread_mutex_init(&common->guard, &shared));
    must_be(sem_init(&common->done, 1, 0) == 0);
}

static void enter(struct common *common, int who)
{
    must(pthread_mutex_lock(&common->guard));
    common->log[common->entries++] = who;
    must(pthread_mutex_unlock(&common->guard));
}

// Attaches the segment of the key again and again, and reads in it what may not be written there.
static void child(int who, int rounds, key_t key, struct common *inherited)
{
    int segment = shmget(key, 0, 0);
    must_be(segment >= 0);
    struct common *common = attach(segment, NULL, 0);
    for (int round = 0; round < rounds; round++) {
        enter(common, who);
        if (inherited)
            enter(inherited, who);
        if (round % 16 == 0) {
            must_be(shmdt(common) == 0);
            const struct common *seen = attach(segment, NULL, SHM_RDONLY);
            must_be(mprotect((void *)(uintptr_t)seen, 4096, PROT_READ | PROT_WRITE) == -1 && errno == EACCES);
            common = attach(segment, NULL, 0);
            must(pthread_mutex_lock(&common->guard));
            int last = seen->log[seen->entries - 1];
            must(pthread_mutex_unlock(&common->guard));
            enter(common, 100 + last);
            must_be(shmdt(seen) == 0);
            usleep(100);
        }
    }
    must_be(sem_post(&common->done) == 0);
    _exit(0);
}

// At addresses of the program's choice.
static void place(int segment, struct transcript *transcript)
{
    char *room = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must_be(room != MAP_FAILED);
    must_be(shmat(segment, room + 4096, 0) == (void *)-1 && errno == EINVAL);
    struct common *common = attach(segment, room + 4096, SHM_REMAP);
    must_be((char *)common == room + 4096);
    note(transcript, common->entries);
    must_be(shmdt(common) == 0);
    must_be(munmap(room, 1 << 20) == 0);
    common = attach(segment, room + 4100, SHM_RND);
    must_be((char *)common == room + 4096);
    note(transcript, common->entries);
    must_be(shmdt(common) == 0);
    must_be(shmdt(common) == -1 && errno == EINVAL);
}

static int make(key_t key, struct common **common)
{
    int segment = shmget(key, sizeof **common, IPC_CREAT | IPC_EXCL | 0600);
    must_be(segment >= 0);
    *common = attach(segment, NULL, 0);
    prepare(*common);
    return segment;
}

static void wait_for(int processes, struct common *common)
{
    for (int who = 0; who < processes; who++) {
        int status;
        must_be(sem_wait(&common->done) == 0);
        must_be(wait(&status) > 0 && status == 0);
    }
}

int main(int count, char **arguments)
{
    struct transcript transcript = {0};
    struct common *inherited, *common;
    struct shmid_ds state;
    if (count == 4) // in another image
        child(0, atoi(arguments[1]), (key_t)strtoul(arguments[2], NULL, 10), NULL);
    int processes = number(count, arguments, 1, 4), rounds = number(count, arguments, 2, 100);
    // Of several runs at a time each has a key of its own.
    key_t key = ftok(arguments[0], 'r') ^ (getpid() << 8);
    int private = make(IPC_PRIVATE, &inherited), known = make(key, &common);
    must_be(2 * processes * rounds <= MOST_ENTRIES);
    for (int who = 0; who < processes; who++) {
        pid_t made = fork();
        must_be(made >= 0);
        if (made == 0 && who == 0) {
            char turns[16], name[16];
            snprintf(turns, sizeof turns, "%d", rounds);
            snprintf(name, sizeof name, "%u", (unsigned)key);
            execl(arguments[0], arguments[0], turns, name, "again", NULL);
            _exit(1);
        }
        if (made == 0)
            child(who, rounds, key, inherited);
    }
    wait_for(processes, common);
    for (int entry = 0; entry < common->entries; entry++)
        note(&transcript, common->log[entry]);
    for (int entry = 0; entry < inherited->entries; entry++)
        note(&transcript, inherited->log[entry]);
    place(private, &transcript);
    must_be(shmctl(known, IPC_STAT, &state) == 0);
    note(&transcript, (int)state.shm_nattch);
    must_be(shmdt(common) == 0);
    must_be(shmctl(known, IPC_RMID, NULL) == 0);
    must_be(shmget(key, 0, 0) == -1 && errno == ENOENT);
    must_be(shmctl(private, IPC_RMID, NULL) == 0);
    note(&transcript, inherited->entries);
    printf("attached at %p\n", (void *)inherited);
    show("segments", &transcript);
    return 0;
}
