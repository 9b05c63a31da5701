// Threads and processes: made, waited for, replaced, ended; words that threads sleep on.
//
// usage: calls_processes [END]       with an argument it is the program that another replaces itself by

#include "calls.h"
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

static char *self;

// Waits for the child and shows everything that the kernel says about it.
static void collect(pid_t child)
{
    int *status = room(4);
    struct rusage *used = room(sizeof *used);
    fflush(stdout);
    CALL(wait4, child, status, 0, used);
    wrote("status", status, 4);
    wrote("used", used, sizeof *used);
}

// A child that ends at once with this status, by a call of its own.
static int ends(long call, int status)
{
    syscall(call, status);
    return status;
}

static void made_and_ended(void)
{
    siginfo_t *told = room(sizeof *told);
    fflush(stdout);
    pid_t child = syscall(SYS_fork);
    CAME(exit_group, child == 0 ? ends(SYS_exit_group, 3) : 0);
    CAME(fork, child);
    CALL(waitid, P_PID, child, told, WEXITED | WNOWAIT, NULL);
    bytes("child", told, 28);
    collect(child);
    CALL(wait4, -1, NULL, 0, NULL);
    CALL(waitid, P_ALL, 0, told, WEXITED | WNOHANG, NULL);
    child = syscall(SYS_vfork);
    CAME(exit, child == 0 ? ends(SYS_exit, 4) : 0);
    CAME(vfork, child);
    collect(child);
    child = syscall(SYS_clone, SIGCHLD, 0, NULL, NULL, 0);
    if (child == 0)
        ends(SYS_exit_group, 5);
    CAME(clone, child);
    collect(child);
    char *words[] = {self, "END", NULL};
    child = fork();
    // Their functions, because of the environment that the recorder has to add.
    if (child == 0) {
        CAME(execve, execve("/nothing/there", words, environ));
        CAME(execve, execve(self, words, environ));
    }
    collect(child);
    child = fork();
    if (child == 0) {
        CAME(execveat, execveat(AT_FDCWD, "/nothing/there", words, environ, 0));
        CAME(execveat, execveat(AT_FDCWD, self, words, environ, 0));
    }
    collect(child);
    CALL(clone3, NULL, 0);
}

static void own_state(void)
{
    struct robust_list_head *head;
    size_t length;
    CALL(get_robust_list, 0, &head, &length);
    printf("  length %zu\n", length);
    CALL(set_robust_list, head, 24);
    CALL(set_robust_list, head, 23);
    CALL(set_tid_address, NULL);
    CALL(sched_yield);
    CALL(membarrier, 0, 0, 0);
    CALL(rseq, NULL, 0, 0, 0);
    CALL(ptrace, 0, 0, 0, 0);
}

static void words(void)
{
    unsigned *word = word_of(5);
    struct timespec span = {0, 1000000}, now;
    CALL(futex, word, FUTEX_WAIT_PRIVATE, 4, &span);
    CALL(futex, word, FUTEX_WAIT_PRIVATE, 5, &span);
    CALL(futex, word, FUTEX_WAKE_PRIVATE, 1);
    CALL(futex, word, FUTEX_CMP_REQUEUE_PRIVATE, 1, 1, word_of(5), 4);
    struct {
        uint64_t value, address;
        uint32_t flags, spare;
    } wait = {4, (uintptr_t)word, 2, 0}, two[2] = {wait, wait};
    CALL(futex_waitv, &wait, 1, 0, NULL, 0);
    must_be(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    wait.value = 5;
    CALL(futex_waitv, &wait, 1, 0, &now, CLOCK_MONOTONIC);
    CALL(futex_wake, word, -1, 1, 2);
    CALL(futex_wait, word, 4, -1, 2, NULL, 0);
    CALL(futex_requeue, two, 0, 1, 1);
}

int main(int count, char **arguments)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (count == 2) {
        printf("another program %d of %d\n", getpid(), getppid());
        return 7;
    }
    self = arguments[0];
    made_and_ended();
    own_state();
    words();
    return 0;
}
