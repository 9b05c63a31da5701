/* Every single instruction of some calls: heads and ends of functions, the linkage table, the loader's look-up, the
   library. */
#include "told.h"
#include <signal.h>
#include <ucontext.h>

enum { STEPS = 3000 };

static int steps;
static volatile int within;

static void trap(int number, siginfo_t *info, void *p) {
    static const int order[] = {REG_RIP, REG_RSP, REG_RBP, REG_RBX, REG_R12, REG_R13, REG_R14, REG_R15};
    const greg_t *all = ((ucontext_t *)p)->uc_mcontext.gregs;
    uint64_t registers[8], truth[FRAMES];
    (void)number, (void)info;
    for (int i = 0; i < 8; i++)
        registers[i] = all[order[i]];
    int depth = backtrace((void **)truth, FRAMES), at = 0;
    while (at < depth && truth[at] != registers[0])
        at++;
    if (within && at < depth && steps++ < STEPS)
        told_race(registers, depth - at, truth + at);
}

static int compare(const void *a, const void *b) {
    return *(const int *)a - *(const int *)b;
}

__attribute__((noinline)) int stepped(int n) {
    volatile char buffer[n];
    int numbers[] = {3, n, 2};
    snprintf((char *)buffer, n, "%d", n);
    qsort(numbers, 3, sizeof *numbers, compare);
    return numbers[0] + buffer[0];
}

int main(void) {
    struct sigaction action = {.sa_sigaction = trap, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    modules();
    __asm__ volatile("pushf; orq $0x100, (%%rsp); popf" ::: "memory", "cc");
    within = 1;
    int result = stepped(8);
    within = 0;
    __asm__ volatile("pushf; andq $~0x100, (%%rsp); popf" ::: "memory", "cc");
    return result == 1000;
}
