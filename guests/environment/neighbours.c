// Faults of instructions next to ones that read the outside: handlers find them where they stand, and go on where they
// say. Prints what the instructions told.
//
// usage: neighbours ROUNDS

#include "../transcript.h"
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <ucontext.h>

typedef uint64_t routine(const uint64_t *pointer, uint64_t divisor);

// `at` is the instruction that faults, which finds the pointer in rbx and the divisor in rcx.
#define ROUTINE(name, text)                                                                                            \
    routine name;                                                                                                      \
    extern const char name##_at[];                                                                                     \
    __asm__(".text\n.globl " #name "\n.type " #name ",@function\n" #name ":\n.cfi_startproc\npush %rbx\n"              \
            ".cfi_adjust_cfa_offset 8\nmov %rdi,%rbx; mov %rsi,%rcx; xor %r8d,%r8d\n" text                             \
            "\nlea (%rax,%r8),%rax; pop %rbx\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n.size " #name ",.-" #name)

ROUTINE(reads_behind, "rdtsc; reads_behind_at: mov (%rbx),%r8");
ROUTINE(reads_between, "rdtsc; reads_between_at: mov (%rbx),%esi; inc %r8d");
ROUTINE(divides, "rdtsc; divides_at: div %rcx");
ROUTINE(reads_before, "reads_before_at: mov (%rbx),%r8; rdtsc; call 1f; 1: lea 8(%rsp),%rsp");

enum action { REPEAT, SKIP, LEAVE };

static const uint64_t pointed = 12;
static const char *expected;
static enum action action;
static int length, met;
static sigjmp_buf back;

static void on_fault(int number, siginfo_t *info, void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    met++;
    must_be((const char *)registers[REG_RIP] == expected);
    must_be(info->si_addr == (number == SIGFPE ? expected : NULL));
    if (action == LEAVE)
        siglongjmp(back, 1);
    registers[REG_RBX] = (greg_t)&pointed;
    registers[REG_RCX] = 1 << 30;
    if (action == SKIP)
        registers[REG_RIP] += length;
}

// One that goes on behind itself is so long.
static void run(routine *called, const char *at, int bytes)
{
    static uint64_t last;
    last = 0;
    for (action = REPEAT; action <= LEAVE; action++) {
        expected = at;
        length = bytes;
        met = 0;
        if (sigsetjmp(back, 1) == 0) {
            uint64_t told = called(NULL, 0);
            must_be(told > last);
            last = called == divides ? 0 : told;
            printf("%d: %lu\n", action, told);
        }
        must_be(met == 1);
        printf("and %lu\n", called(&pointed, 1 << 30));
        must_be(met == 1);
    }
}

int main(int count, char **words)
{
    struct sigaction wanted = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, old;
    must_be(count == 2 && sigaction(SIGSEGV, &wanted, 0) == 0 && sigaction(SIGFPE, &wanted, 0) == 0);
    must_be(sigaction(SIGFPE, 0, &old) == 0 && old.sa_sigaction == on_fault);
    for (int i = 0; i < atoi(words[1]); i++) {
        run(reads_behind, reads_behind_at, 3);
        run(reads_between, reads_between_at, 2);
        run(divides, divides_at, 3);
        run(reads_before, reads_before_at, 3);
    }
    // By another action than the one before.
    wanted.sa_handler = SIG_IGN;
    must_be(sigaction(SIGFPE, &wanted, &old) == 0 && old.sa_sigaction == on_fault);
    must_be(sigaction(SIGFPE, 0, &old) == 0 && old.sa_handler == SIG_IGN);
    return 0;
}
