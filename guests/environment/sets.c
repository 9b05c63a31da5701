// Processes that take turns by what the kernel keeps: a log in a segment, guarded by a System V semaphore alone, by one
// operation that waits for zero and adds, or by one message that is handed round.
//
// usage: sets PROCESSES ROUNDS down|zero|undo|message

#include "../transcript.h"
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/wait.h>

enum { MOST_ENTRIES = 10000 };

struct common {
    int entries;
    int log[MOST_ENTRIES];
};

struct message {
    long kind;
    int from;
};

static const char *how;
static int set, queue;

static void operate(struct sembuf *operations, int count)
{
    must_be(semop(set, operations, count) == 0);
}

static int lock(void)
{
    struct message message = {0, 0};
    struct sembuf down = {0, -1, is(how, "undo") ? SEM_UNDO : 0};
    struct sembuf zero[2] = {{0, 0, 0}, {0, 1, SEM_UNDO}};
    if (is(how, "message"))
        must_be(msgrcv(queue, &message, sizeof message.from, 0, 0) == sizeof message.from);
    else if (is(how, "zero"))
        operate(zero, 2);
    else
        operate(&down, 1);
    return message.from;
}

static void unlock(int who)
{
    struct message message = {1 + who, who};
    struct sembuf up = {0, 1, 0}, down = {0, -1, IPC_NOWAIT | SEM_UNDO};
    if (is(how, "message"))
        must_be(msgsnd(queue, &message, sizeof message.from, 0) == 0);
    else if (is(how, "zero"))
        operate(&down, 1);
    else if (!is(how, "undo"))
        operate(&up, 1);
    else
        _exit(0); // Its end gives back what it took.
}

static void child(int who, int rounds, struct common *common)
{
    for (int round = 0; round < rounds; round++) {
        int from = lock();
        // Not in one step, and without anything else that a replay could wait at.
        int entries = common->entries;
        common->log[entries] = who + 100 * from;
        for (volatile int spent = 0; spent < 200; spent++)
            ;
        common->entries = entries + 1;
        unlock(who);
        jitter();
    }
    _exit(0);
}

int main(int count, char **arguments)
{
    struct transcript transcript = {0};
    int processes = number(count, arguments, 1, 4), rounds = number(count, arguments, 2, 100), status;
    how = word(count, arguments, 3, "down");
    must_be(processes * rounds <= MOST_ENTRIES);
    int segment = shmget(IPC_PRIVATE, sizeof(struct common), 0600);
    struct common *common = shmat(segment, NULL, 0);
    must_be(common != (void *)-1);
    must_be(shmctl(segment, IPC_RMID, NULL) == 0);
    unsigned short values[3] = {is(how, "zero") ? 0 : 1, 7, 9};
    must_be((set = semget(IPC_PRIVATE, 3, 0600)) >= 0 && semctl(set, 0, SETALL, values) == 0);
    must_be((queue = msgget(IPC_PRIVATE, 0600)) >= 0);
    for (int who = 0; who < processes; who++) {
        pid_t made = fork();
        must_be(made >= 0);
        if (made == 0)
            child(who, rounds, common);
    }
    if (is(how, "message"))
        must_be(msgsnd(queue, &(struct message){1, 42}, sizeof(int), 0) == 0);
    for (int who = 0; who < processes; who++)
        must_be(wait(&status) > 0 && status == 0);
    must_be(semctl(set, 0, GETALL, values) == 0);
    for (int each = 0; each < 3; each++)
        note(&transcript, values[each]);
    for (int entry = 0; entry < common->entries; entry++)
        note(&transcript, common->log[entry]);
    must_be(semctl(set, 0, IPC_RMID) == 0 && msgctl(queue, IPC_RMID, NULL) == 0);
    show("sets", &transcript);
    return 0;
}
