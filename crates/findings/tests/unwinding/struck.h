/* A function that raises SIGILL at its very first instruction, and the handler that goes on behind it. */
#include "told.h"
#include <signal.h>
#include <ucontext.h>

void undefined(void);
__asm__(".text\n"
        "before: ret\n"
        ".type undefined, @function\n"
        "undefined:\n"
        ".cfi_startproc\n"
        "ud2\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size undefined, .-undefined\n");

__attribute__((noinline)) void strike(void) {
    undefined();
    __asm__ volatile("");
}

static void handler(int number, siginfo_t *info, void *p) {
    ucontext_t *context = p;
    (void)info;
    if (number == SIGILL)
        context->uc_mcontext.gregs[REG_RIP] += 2;
    take();
    __asm__ volatile("");
}
