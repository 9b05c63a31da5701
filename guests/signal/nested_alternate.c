// Handlers on an alternate stack are struck, in their operations, by others that asked for it, too: those go on below them.
// Then the stack is free again, also for who left it by a jump.
#include "../transcript.h"
#include <setjmp.h>
#include <signal.h>

#define STACK_BYTES (1 << 16)

static _Thread_local char *stack;
static _Thread_local volatile int inner, outer;
static _Thread_local char *volatile outer_at;
static _Thread_local sigjmp_buf before;
static _Thread_local volatile int jumps;

static int is_on_stack(const char *at)
{
    return at >= stack && at < stack + STACK_BYTES;
}

static void on_inner(int number)
{
    char space[2000];
    memset(space, number, sizeof space);
    __asm__ volatile("" : : "r"(space) : "memory");
    must_be(is_on_stack(space) && space < outer_at);
    inner++;
    dprintf(STDOUT_FILENO, "inner %d\n", inner);
    if (jumps)
        siglongjmp(before, 1);
}

static void on_outer(int number)
{
    char space[6000];
    stack_t now, other = {.ss_sp = space, .ss_size = sizeof space};
    outer_at = space;
    memset(space, number, sizeof space);
    __asm__ volatile("" : : "r"(space) : "memory");
    must_be(is_on_stack(space));
    must_be(sigaltstack(NULL, &now) == 0 && (now.ss_flags & SS_ONSTACK) && now.ss_sp == (void *)stack);
    must_be(sigaltstack(&other, NULL) == -1 && errno == EPERM);
    must_be(raise(SIGUSR2) == 0);
    must(pthread_kill(pthread_self(), SIGUSR2));
    for (size_t at = 0; at < sizeof space; at++)
        must_be(space[at] == (char)number);
    outer++;
    dprintf(STDOUT_FILENO, "outer %d\n", outer);
}

static void *struck(void *unused)
{
    stack_t own = {.ss_size = STACK_BYTES}, now;
    own.ss_sp = stack = malloc(STACK_BYTES);
    must_be(sigaltstack(&own, NULL) == 0);
    for (int round = 0; round < 6; round++) {
        jumps = round % 3 == 2;
        if (sigsetjmp(before, 1) == 0) {
            must_be(raise(SIGUSR1) == 0);
            must(pthread_kill(pthread_self(), SIGUSR1));
        }
        must_be(sigaltstack(NULL, &now) == 0 && now.ss_flags == 0 && now.ss_sp == (void *)stack);
    }
    must_be(inner == 18 && outer == 8);
    return unused;
}

// main|worker
int main(int argc, char **argv)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_flags = SA_ONSTACK;
    action.sa_handler = on_outer;
    must_be(sigaction(SIGUSR1, &action, NULL) == 0);
    action.sa_handler = on_inner;
    must_be(sigaction(SIGUSR2, &action, NULL) == 0);
    if (is(word(argc, argv, 1, "main"), "worker")) {
        pthread_t thread;
        must(pthread_create(&thread, NULL, struck, NULL));
        must(pthread_join(thread, NULL));
    } else {
        struck(NULL);
    }
    return 0;
}
