// Signals that strike a thread while it computes without any call: where they do, and what the
// loop had done by then, is printed at the end.
#include "../transcript.h"
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <ucontext.h>

enum { KEPT = 200 };

struct strike {
    unsigned long place;
    unsigned long count;
};

static struct strike strikes[KEPT];
static volatile sig_atomic_t struck;
static volatile unsigned long counter;
static unsigned long *on_heap;
static sigjmp_buf back;
static int jumps;
static int copies;

static void on_signal(int number, siginfo_t *info, void *context)
{
    const ucontext_t *interrupted = context;
    unsigned long place = (unsigned long)interrupted->uc_mcontext.gregs[REG_RIP];
    (void)number;
    (void)info;
    if (struck < KEPT) {
        // Only the program's own code: what we ourselves run is none of its business.
        strikes[struck].place = place >> 40 == 0x55 ? place & 0xFFF : 0;
        strikes[struck].count = counter + *on_heap;
        // Within a copy: how much of it was left.
        if (copies)
            strikes[struck].count = strikes[struck].count * 10000000 + interrupted->uc_mcontext.gregs[REG_RCX];
    }
    struck++;
    if (jumps)
        siglongjmp(back, 1);
}

__attribute__((noinline)) static unsigned long in_registers(unsigned long rounds)
{
    unsigned long sum = 0;
    for (unsigned long i = 0; i < rounds; i++)
        for (unsigned long j = 0; j < 10000; j++)
            __asm__ volatile("add %1, %0" : "+r"(sum) : "r"(j));
    return sum;
}

__attribute__((noinline)) static unsigned long on_stack(unsigned long rounds)
{
    volatile unsigned long sum = 0;
    for (volatile unsigned long i = 0; i < rounds; i++)
        for (volatile unsigned long j = 0; j < 1000; j++)
            sum += j;
    return sum;
}

__attribute__((noinline)) static unsigned long of_fractions(unsigned long rounds)
{
    double sum = 1;
    for (unsigned long i = 0; i < rounds; i++)
        sum = sum * 1.0000001 + 1e-9;
    return (unsigned long)(sum * 1e6);
}

// The processor repeats an instruction, and signals strike between two repetitions.
__attribute__((noinline)) static unsigned long of_copies(unsigned long rounds)
{
    enum { BYTES = 4 << 20 };
    char *from = malloc(BYTES), *to = malloc(BYTES);
    copies = 1;
    for (counter = 0; counter < rounds / 50; counter++) {
        void *at = from, *here = from, *there = to;
        unsigned long left = BYTES / 8, bytes = BYTES;
        __asm__ volatile("rep stosq" : "+D"(at), "+c"(left) : "a"(counter) : "memory");
        __asm__ volatile("rep movsb" : "+D"(there), "+S"(here), "+c"(bytes) : : "memory");
    }
    copies = 0;
    return (unsigned char)to[BYTES - 8];
}

static void one(void)
{
    counter++;
}

static void two(void)
{
    counter += 2;
}

__attribute__((noinline)) static unsigned long of_calls(unsigned long rounds)
{
    static void (*volatile called[2])(void) = { one, two };
    for (unsigned long i = 0; i < rounds * 2000; i++)
        called[i % 2]();
    return counter;
}

static unsigned long compute(const char *how, unsigned long rounds)
{
    if (!strcmp(how, "registers"))
        return in_registers(rounds * 3);
    if (!strcmp(how, "stack"))
        return on_stack(rounds * 10);
    if (!strcmp(how, "fractions"))
        return of_fractions(rounds * 5000);
    if (!strcmp(how, "copies"))
        return of_copies(rounds);
    if (!strcmp(how, "calls"))
        return of_calls(rounds);
    if (!strcmp(how, "heap"))
        while (*(volatile unsigned long *)on_heap < rounds * 10000)
            ++*(volatile unsigned long *)on_heap;
    else
        while (counter < rounds * 10000)
            counter++;
    return counter + *on_heap;
}

int main(int count, char **arguments)
{
    must_be(count == 4);
    static char other_stack[65536];
    stack_t stack = { .ss_sp = other_stack, .ss_size = sizeof other_stack };
    struct itimerval timer = { { 0, 25000 }, { 0, 25000 } };
    struct itimerval none = { { 0, 0 }, { 0, 0 } };
    struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART };
    const char *clock = arguments[2];
    int which = !strcmp(clock, "prof") ? ITIMER_PROF : !strcmp(clock, "virtual") ? ITIMER_VIRTUAL : ITIMER_REAL;
    int number = which == ITIMER_PROF ? SIGPROF : which == ITIMER_VIRTUAL ? SIGVTALRM : SIGALRM;
    unsigned long result = 0;
    on_heap = calloc(1, 64);
    if (!strcmp(clock, "other")) {
        must_be(sigaltstack(&stack, NULL) == 0);
        action.sa_flags |= SA_ONSTACK;
    }
    if (!strcmp(clock, "jump"))
        jumps = 1;
    must_be(sigaction(number, &action, NULL) == 0);
    must_be(setitimer(which, &timer, NULL) == 0);
    // A jump begins the loop again, a few times.
    if (!sigsetjmp(back, 1) || struck < 5)
        result = compute(arguments[1], (unsigned long)atol(arguments[3]));
    must_be(setitimer(which, &none, NULL) == 0);
    printf("%lu %d\n", result, (int)struck);
    for (int i = 0; i < struck && i < KEPT; i++)
        printf("%lx %lu\n", strikes[i].place, strikes[i].count);
    return 0;
}
