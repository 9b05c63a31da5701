// Threads, or processes that share memory, take turns by nothing but what the kernel has: locks on a file, a file that one
// makes and removes, a signal that one sends and another waits for, a byte in a pipe. They write down who came when.
//
// usage: turns threads|processes COUNT ROUNDS WAY

#include "../transcript.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { MOST_ENTRIES = 10000 };

struct common {
    int entries;
    int log[MOST_ENTRIES];
};

static struct common *common;
static const char *how;
static int rounds, signals;
static int ends[2];
static sigset_t token, nothing;
static pid_t next;
static volatile sig_atomic_t struck;

static void handle(int number)
{
    (void)number;
    struck = 1;
}

static int is_ring(void)
{
    return is(how, "ring") || is(how, "handled");
}

static int control(int file, int command, short type)
{
    struct flock region = {.l_type = type, .l_whence = SEEK_SET, .l_start = 3, .l_len = 1};
    return fcntl(file, command, &region);
}

// Each has an open file of its own.
static void lock(int file)
{
    struct signalfd_siginfo told;
    siginfo_t queued;
    int number, made;
    if (is(how, "flock"))
        must_be(flock(file, LOCK_EX) == 0);
    else if (is(how, "tried"))
        while (flock(file, LOCK_EX | LOCK_NB) != 0)
            pause_for(20000);
    else if (is(how, "raw"))
        must_be(syscall(SYS_flock, file, LOCK_EX) == 0);
    else if (is(how, "ofd"))
        must_be(control(file, F_OFD_SETLKW, F_WRLCK) == 0);
    else if (is(how, "posix"))
        must_be(control(file, F_SETLKW, F_WRLCK) == 0);
    else if (is(how, "lockf"))
        must_be(lockf(file, F_LOCK, 1) == 0);
    else if (is(how, "file")) {
        while ((made = open("turn", O_CREAT | O_EXCL | O_WRONLY, 0600)) < 0)
            pause_for(20000);
        close(made);
    } else if (is(how, "folder")) {
        while (mkdir("turn", 0700) != 0)
            pause_for(20000);
    } else if (is(how, "sigwait") || is(how, "ring"))
        must(sigwait(&token, &number));
    else if (is(how, "handled")) {
        while (!struck)
            must_be(sigsuspend(&nothing) != 0 && errno == EINTR);
        struck = 0;
    } else if (is(how, "pipe"))
        must_be(read(ends[0], &made, 1) == 1);
    else if (is(how, "queued")) {
        // The kernel wakes one that waits, and another one may come first.
        int taken;
        while ((taken = sigwaitinfo(&token, &queued)) < 0 && errno == EINTR)
            ;
        must_be(taken == SIGUSR1 && queued.si_value.sival_int == 7);
    } else if (is(how, "signalfd"))
        must_be(read(signals, &told, sizeof told) == sizeof told);
    else
        must_be(0);
}

static void unlock(int file)
{
    if (is(how, "flock") || is(how, "tried"))
        must_be(flock(file, LOCK_UN) == 0);
    else if (is(how, "raw"))
        must_be(syscall(SYS_flock, file, LOCK_UN) == 0);
    else if (is(how, "ofd"))
        must_be(control(file, F_OFD_SETLK, F_UNLCK) == 0);
    else if (is(how, "posix"))
        must_be(control(file, F_SETLK, F_UNLCK) == 0);
    else if (is(how, "lockf"))
        must_be(lockf(file, F_ULOCK, 1) == 0);
    else if (is(how, "file"))
        must_be(unlink("turn") == 0);
    else if (is(how, "folder"))
        must_be(rmdir("turn") == 0);
    else if (is(how, "pipe"))
        must_be(write(ends[1], "x", 1) == 1);
    else if (is(how, "queued"))
        must_be(sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 7}) == 0);
    else
        must_be(kill(is_ring() ? next : getpid(), SIGUSR1) == 0);
}

static void *member(void *argument)
{
    int file = open("large", O_RDWR);
    must_be(file >= 0);
    for (int round = 0; round < rounds; round++) {
        lock(file);
        // Not in one step, and without anything else that a replay could wait at.
        int entries = common->entries;
        common->log[entries] = (int)(intptr_t)argument;
        for (volatile int spent = 0; spent < 200; spent++)
            ;
        common->entries = entries + 1;
        unlock(file);
        jitter();
    }
    must_be(close(file) == 0);
    return NULL;
}

// In a ring each wakes the one that was made before it.
static void processes(int count)
{
    pid_t made[MOST_THREADS], last = getpid();
    int status;
    for (int who = 0; who < count; who++) {
        next = last;
        must_be((made[who] = fork()) >= 0);
        if (made[who] == 0) {
            member((void *)(intptr_t)who);
            _exit(0);
        }
        last = made[who];
    }
    next = last;
    if (is_ring())
        for (int round = 0; round < rounds; round++) {
            unlock(0);
            lock(0);
        }
    for (int who = 0; who < count; who++)
        must_be(wait(&status) > 0 && status == 0);
}

int main(int argc, char **argv)
{
    struct transcript transcript = {0};
    int count = number(argc, argv, 2, 4);
    rounds = number(argc, argv, 3, 50);
    how = word(argc, argv, 4, "flock");
    must_be(count * rounds <= MOST_ENTRIES);
    common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must_be(common != MAP_FAILED);
    must_be(sigemptyset(&token) == 0 && sigaddset(&token, SIGUSR1) == 0);
    must(pthread_sigmask(SIG_BLOCK, &token, NULL));
    must_be(sigemptyset(&nothing) == 0 && pipe(ends) == 0);
    must_be((signals = signalfd(-1, &token, 0)) >= 0);
    if (is(how, "handled"))
        must_be(sigaction(SIGUSR1, &(struct sigaction){.sa_handler = handle}, NULL) == 0);
    int is_token = is(how, "sigwait") || is(how, "queued") || is(how, "signalfd") || is(how, "pipe");
    if (is_token)
        unlock(0);
    if (is(word(argc, argv, 1, "threads"), "threads"))
        crew(count, member);
    else
        processes(count);
    if (is_token)
        lock(0);
    // Nothing is left of those that were taken.
    must(pthread_sigmask(SIG_UNBLOCK, &token, NULL));
    for (int entry = 0; entry < common->entries; entry++)
        note(&transcript, (uint64_t)common->log[entry]);
    show("turns", &transcript);
    return 0;
}
