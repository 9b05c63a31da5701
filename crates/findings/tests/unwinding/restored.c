/* Handlers that return to code of which no table tells, as those of our own library do; behind a function that has one. */
#include "struck.h"
#include <sys/syscall.h>

void restorer(void);
__asm__(".text\n"
        ".skip 16, 0x90\n"
        ".type restorer, @function\n"
        "restorer:\n"
        "mov $15, %rax\n"
        "syscall\n"
        ".size restorer, .-restorer\n");

int main(void) {
    struct {
        void (*handler)(int, siginfo_t *, void *);
        unsigned long flags;
        void (*restorer)(void);
        unsigned long mask;
    } action = {handler, SA_SIGINFO | 0x04000000, restorer, 0};
    syscall(SYS_rt_sigaction, SIGILL, &action, NULL, 8);
    syscall(SYS_rt_sigaction, SIGUSR1, &action, NULL, 8);
    strike();
    raise(SIGUSR1);
    return 0;
}
