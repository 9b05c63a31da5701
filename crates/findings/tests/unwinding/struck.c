/* Signals: raised, at the very first instruction of a function, on the thread's stack and on another. */
#include "struck.h"

int main(void) {
    static char other[1 << 16];
    stack_t stack = {.ss_sp = other, .ss_size = sizeof other};
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGILL, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    strike();
    raise(SIGUSR1);
    action.sa_flags |= SA_ONSTACK;
    sigaction(SIGILL, &action, NULL);
    sigaltstack(&stack, NULL);
    strike();
    return 0;
}
