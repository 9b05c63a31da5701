// Signals: actions, masks, sending, waiting; descriptors of processes.

#include "calls.h"
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>

struct kernel_action {
    void (*handler)(int, siginfo_t *, void *);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
};

static int codes[64];

static void noted(int signal, siginfo_t *info, void *context)
{
    (void)context;
    codes[signal] = info->si_code;
}

static void show_codes(void)
{
    for (int signal = 1; signal < 64; signal++)
        if (codes[signal] != 0)
            printf("  signal %d code %d\n", signal, codes[signal]);
    memset(codes, 0, sizeof codes);
}

static void actions(void)
{
    struct sigaction wanted = {.sa_sigaction = noted, .sa_flags = SA_SIGINFO};
    must_be(sigaction(SIGUSR1, &wanted, NULL) == 0 && sigaction(SIGUSR2, &wanted, NULL) == 0);
    must_be(sigaction(SIGALRM, &wanted, NULL) == 0);
    struct kernel_action *set = room(sizeof *set);
    CALL(rt_sigaction, SIGUSR1, NULL, set, 8);
    printf("  handler %d mask %llx\n", set->handler == noted, (unsigned long long)set->mask);
    CALL(rt_sigaction, SIGKILL, set, NULL, 8);
    CALL(rt_sigaction, SIGUSR1, NULL, set, 7);
    stack_t other = {.ss_sp = room(1 << 16), .ss_size = 1 << 16}, *before = room(sizeof other);
    CALL(sigaltstack, &other, before);
    printf("  flags %d\n", before->ss_flags);
    CALL(sigaltstack, NULL, before);
    printf("  size %zu\n", before->ss_size);
}

static void masks(void)
{
    uint64_t blocked = 1 << (SIGUSR1 - 1), *before = room(8), *waiting = room(8);
    CALL(rt_sigprocmask, SIG_BLOCK, &blocked, before, 8);
    wrote("before", before, 8);
    CALL(tgkill, getpid(), syscall(SYS_gettid), SIGUSR1);
    CALL(rt_sigpending, waiting, 8);
    wrote("pending", waiting, 8);
    siginfo_t *told = room(sizeof *told);
    struct timespec span = {1, 0}, none = {0, 0};
    CALL(rt_sigtimedwait, &blocked, told, &span, 8);
    printf("  code %d from %d\n", told->si_code, told->si_pid);
    CALL(rt_sigtimedwait, &blocked, told, &none, 8);
    CALL(rt_sigprocmask, SIG_UNBLOCK, &blocked, NULL, 8);
    CALL(rt_sigprocmask, 77, &blocked, NULL, 8);
}

static void sending(void)
{
    siginfo_t with = {.si_code = SI_QUEUE};
    CALL(kill, getpid(), SIGUSR1);
    show_codes();
    CALL(tkill, syscall(SYS_gettid), SIGUSR2);
    show_codes();
    CALL(tgkill, getpid(), syscall(SYS_gettid), SIGUSR1);
    show_codes();
    CALL(rt_sigqueueinfo, getpid(), SIGUSR1, &with);
    show_codes();
    CALL(rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), SIGUSR2, &with);
    show_codes();
    CALL(kill, getpid(), 0);
    CALL(kill, getpid(), 99);
    CALL(tgkill, getpid(), 1, 0);
    int self = CALL(pidfd_open, getpid(), 0);
    CALL(pidfd_send_signal, self, SIGUSR1, NULL, 0);
    show_codes();
    CALL(pidfd_getfd, self, 0, 0);
    CALL(pidfd_open, -1, 0);
}

static void waits(void)
{
    uint64_t all = 0;
    CALL(alarm, 1);
    CALL(pause);
    show_codes();
    CALL(alarm, 1);
    CALL(rt_sigsuspend, &all, 8);
    show_codes();
    struct sigevent by = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
    struct itimerspec span = {{0, 0}, {0, 5000000}};
    int *timer = room(4);
    CALL(timer_create, CLOCK_MONOTONIC, &by, timer);
    CALL(timer_settime, *timer, 0, &span, NULL);
    CALL(pause);
    show_codes();
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    actions();
    masks();
    sending();
    waits();
    return 0;
}
