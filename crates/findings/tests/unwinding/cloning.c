/* A system call behind the end of its function's description, as in libc's clone(): there a new thread has no caller. */
#include "struck.h"
#include <unistd.h>

long ask(long number, long process, long signal);
__asm__(".text\n"
        ".type ask, @function\n"
        "ask:\n"
        ".cfi_startproc\n"
        "mov %rdi, %rax\n"
        "mov %rsi, %rdi\n"
        "mov %rdx, %rsi\n"
        ".cfi_endproc\n"
        "syscall\n"
        "ret\n"
        ".size ask, .-ask\n");

__attribute__((noinline)) static void asking(void) {
    ask(62, getpid(), SIGUSR1);
    __asm__ volatile("");
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    asking();
    return 0;
}
