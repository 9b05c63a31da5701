// Signals strike threads that compute at the same time, in the same code and each in its own: where they do, and
// what the thread had done by then, is printed at the end.
#include "../transcript.h"
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>

enum { KEPT = 100, MOST = 8, FORKED = 300 };

struct strike {
    unsigned long place;
    unsigned long count;
};

struct worker {
    pthread_t id;
    int number;
    volatile int struck;
    volatile unsigned long counter;
    unsigned long result;
    struct strike strikes[KEPT];
};

static struct worker workers[MOST];
static __thread struct worker *self;
static const char *what;
static const char *clock_name;
static unsigned long rounds;

// The first handler that a thread runs of another signal: it must not be disturbed.
static __thread unsigned long faults;
static __thread unsigned long *volatile nowhere;

static void on_signal(int number, siginfo_t *info, void *context)
{
    const ucontext_t *interrupted = context;
    unsigned long place = (unsigned long)interrupted->uc_mcontext.gregs[REG_RIP];
    struct worker *own = self;
    (void)number;
    (void)info;
    if (own == NULL || own->struck >= KEPT)
        return;
    struct strike *strike = &own->strikes[own->struck++];
    int in_program = place >> 40 == 0x55;
    strike->place = in_program ? place & 0xFFF : 0;
    // The loops that count in registers have it in this one.
    strike->count = own->counter + (in_program && !strcmp(what, "registers") ? interrupted->uc_mcontext.gregs[REG_R12] : 0);
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    ucontext_t *interrupted = context;
    unsigned long value = 0;
    (void)number;
    (void)info;
    faults++;
    // The same each time.
    if (!strcmp(what, "handlers"))
        for (int i = 0; i < 20000; i++)
            __asm__ volatile("add $3, %0" : "+r"(value));
    // Over the two bytes that read through rbx.
    interrupted->uc_mcontext.gregs[REG_RIP] += 3;
}

__attribute__((noinline)) static unsigned long in_registers(struct worker *own)
{
    register unsigned long i __asm__("r12");
    unsigned long sum = 0;
    for (i = 0; i < rounds * 10000; i++)
        __asm__ volatile("add %1, %0" : "+r"(sum), "+r"(i));
    own->counter = i;
    return sum;
}

// Instructions of one and two bytes: a jump takes the place of several.
__attribute__((noinline)) static unsigned long in_short_ones(struct worker *own)
{
    for (unsigned long i = 0; i < rounds * 10; i++) {
        unsigned int left = 1000;
        __asm__ volatile("1: push %%rax; pop %%rax; cld; nop; sub $1, %0; jnz 1b" : "+r"(left) : : "cc", "memory");
        own->counter = i;
    }
    return own->counter;
}

__attribute__((noinline)) static unsigned long in_memory(struct worker *own)
{
    while (own->counter < rounds * 3000)
        own->counter++;
    return own->counter;
}

__attribute__((noinline)) static unsigned long with_faults(struct worker *own)
{
    for (own->counter = 0; own->counter < rounds * 3; own->counter++) {
        unsigned long value = own->counter;
        for (int i = 0; i < 1000; i++)
            __asm__ volatile("add $3, %0" : "+r"(value));
        __asm__ volatile("mov (%1), %0" : "=a"(value) : "b"(nowhere));
    }
    return faults;
}

__attribute__((noinline)) static unsigned long in_library(struct worker *own)
{
    static char text[1 << 16];
    unsigned long sum = 0;
    for (own->counter = 0; own->counter < rounds * 4; own->counter++)
        sum += memchr(text + own->counter % 64, 7, sizeof text / 2) != NULL;
    return sum + own->counter;
}

// A child that goes where others are struck while watches there come and go.
static unsigned long fork_one(struct worker *own, unsigned long its_rounds)
{
    pid_t child = fork();
    if (child == 0) {
        own->counter = 0;
        rounds = its_rounds;
        _exit((int)(in_memory(own) & 0x3F));
    }
    int status;
    must_be(child > 0);
    while (waitpid(child, &status, 0) != child)
        must_be(errno == EINTR);
    must_be(WIFEXITED(status));
    return (unsigned long)WEXITSTATUS(status);
}

static void *compute(void *argument)
{
    struct worker *own = self = argument;
    timer_t timer;
    if (!strcmp(clock_name, "own")) {
        struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1 };
        struct itimerspec every = { { 0, 21000000 }, { 0, 21000000 } };
        event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
        must_be(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
        must_be(timer_settime(timer, 0, &every, NULL) == 0);
    }
    if (!strcmp(clock_name, "forks") && own->number == 0) {
        for (int i = 0; i < FORKED; i++)
            own->result += fork_one(own, 10);
        return NULL;
    }
    int which = strcmp(what, "mixed") ? -1 : own->number % 4;
    if (!strcmp(what, "registers") || which == 0)
        own->result = in_registers(own);
    else if (!strcmp(what, "short") || which == 1)
        own->result = in_short_ones(own);
    else if (!strcmp(what, "faults") || !strcmp(what, "handlers") || which == 2)
        own->result = with_faults(own);
    else if (!strcmp(what, "library") || which == 3)
        own->result = in_library(own);
    else
        own->result = in_memory(own);
    if (!strcmp(clock_name, "own"))
        must_be(timer_delete(timer) == 0);
    // Some leave while others are still awaiting theirs.
    if (!strcmp(clock_name, "fork") && own->number % 2 == 0)
        own->result += fork_one(own, rounds / 4);
    return NULL;
}

static void *send(void *argument)
{
    enum { SENT = 12 };
    int count = *(int *)argument;
    sigset_t all;
    // The sender blocks all signals, as such threads do.
    must(pthread_sigmask(SIG_BLOCK, (sigfillset(&all), &all), NULL));
    for (int i = 0; i < SENT; i++) {
        struct timespec pause = { 0, 17000000 };
        nanosleep(&pause, NULL);
        must(pthread_kill(workers[i % count].id, SIGUSR1));
    }
    return NULL;
}

// WHAT CLOCK THREADS ROUNDS
int main(int argc, char **arguments)
{
    must_be(argc == 5);
    what = arguments[1];
    clock_name = arguments[2];
    int count = atoi(arguments[3]);
    rounds = (unsigned long)atol(arguments[4]);
    must_be(count <= MOST);
    int profiles = !strcmp(clock_name, "prof") || !strncmp(clock_name, "fork", 4);
    struct itimerval timer = { { 0, 13000 }, { 0, 13000 } }, none = { { 0, 0 }, { 0, 0 } };
    struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART };
    must_be(sigaction(profiles ? SIGPROF : SIGUSR1, &action, NULL) == 0);
    action.sa_sigaction = on_fault;
    must_be(sigaction(SIGSEGV, &action, NULL) == 0);
    if (profiles)
        must_be(setitimer(ITIMER_PROF, &timer, NULL) == 0);
    for (int i = 0; i < count; i++) {
        workers[i].number = i;
        must(pthread_create(&workers[i].id, NULL, compute, &workers[i]));
    }
    pthread_t sender;
    if (!strcmp(clock_name, "kill"))
        must(pthread_create(&sender, NULL, send, &count));
    // Not before: a thread that was joined is none to send to.
    if (!strcmp(clock_name, "kill"))
        must(pthread_join(sender, NULL));
    for (int i = 0; i < count; i++)
        must(pthread_join(workers[i].id, NULL));
    must_be(setitimer(ITIMER_PROF, &none, NULL) == 0);
    for (int i = 0; i < count; i++) {
        printf("worker %d: %lu, struck %d\n", i, workers[i].result, workers[i].struck);
        for (int j = 0; j < workers[i].struck; j++)
            printf("%03lx %012lu\n", workers[i].strikes[j].place, workers[i].strikes[j].count);
    }
    return 0;
}
