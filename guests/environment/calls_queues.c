// Queues, semaphores and keys that the kernel keeps for processes to share.

#include "calls.h"
#include <linux/keyctl.h>
#include <mqueue.h>
#include <signal.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

static void semaphores(void)
{
    struct sembuf up[2] = {{0, 2, 0}, {2, 1, 0}}, down = {0, -1, IPC_NOWAIT};
    struct timespec span = {0, 1000};
    unsigned short values[3] = {7, 8, 9};
    int set = CALL(semget, IPC_PRIVATE, 3, 0600);
    CALL(semop, set, up, 2);
    CALL(semop, set, &down, 1);
    down.sem_op = -5;
    CALL(semtimedop, set, &down, 1, &span);
    void *told = room(104), *limits = room(40);
    CALL(semctl, set, 0, IPC_STAT, told);
    wrote("set", told, 104);
    CALL(semctl, set, 0, GETVAL);
    CALL(semctl, set, 0, GETPID);
    CALL(semctl, set, 0, GETNCNT);
    CALL(semctl, set, 0, GETZCNT);
    CALL(semctl, set, 1, SETVAL, 5);
    CALL(semctl, set, 0, SETALL, values);
    unsigned short *held = room(sizeof values);
    CALL(semctl, set, 0, GETALL, held);
    wrote("values", held, sizeof values);
    CALL(semctl, 0, 0, IPC_INFO, limits);
    wrote("limits", limits, 40);
    CALL(semctl, 0, 0, SEM_INFO, limits);
    wrote("limits", limits, 40);
    CALL(semctl, 0, 0, SEM_STAT, told);
    wrote("first", told, 104);
    CALL(semctl, 0, 0, 20 /* SEM_STAT_ANY */, told);
    wrote("first", told, 104);
    CALL(semctl, set, 0, IPC_RMID);
    CALL(semctl, set, 0, GETVAL);
}

static void messages(void)
{
    struct {
        long kind;
        char text[40];
    } sent = {3, "a message with its kind"}, *received = room(sizeof *received);
    int queue = CALL(msgget, IPC_PRIVATE, 0600);
    CALL(msgsnd, queue, &sent, 24, 0);
    CALL(msgsnd, queue, &sent, 24, 0);
    CALL(msgrcv, queue, received, 5, 0, IPC_NOWAIT);
    wrote("too long", received, sizeof *received);
    CALL(msgrcv, queue, received, 5, 3, MSG_NOERROR);
    wrote("cut", received, sizeof *received);
    CALL(msgrcv, queue, received, 40, 0, 0);
    wrote("whole", received, sizeof *received);
    CALL(msgrcv, queue, received, 40, 0, IPC_NOWAIT);
    void *told = room(120), *limits = room(32);
    CALL(msgctl, queue, IPC_STAT, told);
    wrote("queue", told, 120);
    CALL(msgctl, 0, IPC_INFO, limits);
    wrote("limits", limits, 32);
    CALL(msgctl, 0, MSG_INFO, limits);
    wrote("limits", limits, 32);
    CALL(msgctl, 0, MSG_STAT, told);
    wrote("first", told, 120);
    CALL(msgctl, queue, IPC_RMID, NULL);
}

static void segments(void)
{
    void *told = room(112), *limits = room(72), *usage = room(48);
    int segment = CALL(shmget, IPC_PRIVATE, 5000, 0600);
    CALL(shmctl, segment, IPC_STAT, told);
    wrote("segment", told, 112);
    CALL(shmctl, 0, IPC_INFO, limits);
    wrote("limits", limits, 72);
    CALL(shmctl, 0, SHM_INFO, usage);
    wrote("usage", usage, 48);
    CALL(shmctl, 0, SHM_STAT, told);
    wrote("first", told, 112);
    CALL(shmctl, segment, SHM_LOCK, NULL);
    CALL(shmctl, segment, SHM_UNLOCK, NULL);
    CALL(shmctl, segment, IPC_RMID, NULL);
    CALL(shmdt, told);
}

static void named(void)
{
    char name[64];
    struct mq_attr wanted = {.mq_maxmsg = 3, .mq_msgsize = 50}, *told = room(sizeof *told);
    struct sigevent quiet = {.sigev_notify = SIGEV_NONE};
    struct timespec past = {1, 0};
    snprintf(name, sizeof name, "calls-%d", getpid());
    int queue = CALL(mq_open, name, O_CREAT | O_EXCL | O_RDWR, 0600, &wanted);
    CALL(mq_unlink, name);
    CALL(mq_notify, queue, &quiet);
    CALL(mq_timedsend, queue, "of a kind", 9, 5, NULL);
    CALL(mq_getsetattr, queue, NULL, told);
    wrote("attributes", told, sizeof *told);
    char *text = room(60);
    unsigned *kind = room(4);
    CALL(mq_timedreceive, queue, text, 10, kind, NULL);
    wrote("text", text, 60);
    CALL(mq_timedreceive, queue, text, 60, kind, NULL);
    wrote("text", text, 60);
    wrote("kind", kind, 4);
    CALL(mq_timedreceive, queue, text, 60, kind, &past);
    wrote("kind", kind, 4);
}

static void keys(void)
{
    char *text = room(100);
    CALL(keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
    CALL(keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0);
    int key = CALL(add_key, "user", "a key", "its payload", 11, KEY_SPEC_SESSION_KEYRING);
    CALL(request_key, "user", "no such key", NULL, KEY_SPEC_SESSION_KEYRING);
    CALL(keyctl, KEYCTL_SEARCH, KEY_SPEC_SESSION_KEYRING, "user", "a key", 0);
    CALL(keyctl, KEYCTL_READ, key, text, 100);
    wrote("read", text, 100);
    CALL(keyctl, KEYCTL_READ, key, text, 4);
    wrote("too little room", text, 100);
    CALL(keyctl, KEYCTL_DESCRIBE, key, text, 100);
    wrote("described", text, 100);
    CALL(keyctl, KEYCTL_DESCRIBE, key, text, 6);
    wrote("too little room", text, 100);
    CALL(keyctl, KEYCTL_GET_SECURITY, key, text, 100);
    wrote("label", text, 100);
    CALL(keyctl, KEYCTL_UPDATE, key, "another", 7);
    CALL(keyctl, KEYCTL_SETPERM, key, 0x3f3f0000);
    CALL(keyctl, KEYCTL_SET_TIMEOUT, key, 100);
    CALL(keyctl, 31 /* KEYCTL_CAPABILITIES */, text, 9);
    wrote("capabilities", text, 100);
    CALL(keyctl, 31 /* KEYCTL_CAPABILITIES */, text, 1);
    wrote("capabilities", text, 100);
    CALL(keyctl, KEYCTL_UNLINK, key, KEY_SPEC_SESSION_KEYRING);
    CALL(keyctl, KEYCTL_REVOKE, key);
    CALL(keyctl, KEYCTL_READ, key, text, 100);
    CALL(keyctl, KEYCTL_CLEAR, KEY_SPEC_SESSION_KEYRING);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    semaphores();
    messages();
    segments();
    named();
    keys();
    return 0;
}
