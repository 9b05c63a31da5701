// A mutex and a condition made by hand of an atomic variable and futexes, by the
// library's function and by an instruction of its own: who sleeps, who is woken,
// and who finds that there is nothing to sleep for comes out otherwise each time.
#include "../transcript.h"
#include <linux/futex.h>
#include <stdatomic.h>

static atomic_int lock, turns;
static struct transcript transcript;
static int rounds, crew_size, by_instruction;

static long futex(atomic_int *at, int command, int value)
{
    if (!by_instruction)
        return syscall(SYS_futex, at, command | FUTEX_PRIVATE_FLAG, value, NULL, NULL, ~0u);
    register long r10 __asm__("r10") = 0, r8 __asm__("r8") = 0, r9 __asm__("r9") = ~0u;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(SYS_futex), "D"(at), "S"(command | FUTEX_PRIVATE_FLAG), "d"(value), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static void take(void)
{
    int seen = 0;
    if (atomic_compare_exchange_strong(&lock, &seen, 1))
        return;
    if (seen != 2)
        seen = atomic_exchange(&lock, 2);
    while (seen) {
        futex(&lock, FUTEX_WAIT_BITSET, 2);
        seen = atomic_exchange(&lock, 2);
    }
}

static void give(void)
{
    if (atomic_exchange(&lock, 0) == 2)
        futex(&lock, FUTEX_WAKE, 1);
}

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        take();
        note(&transcript, (uint64_t)who);
        give();
        if (round % 8 == 0)
            jitter();
    }
    // All wait until the last one is here.
    int seen = atomic_fetch_add(&turns, 1) + 1;
    while (seen < crew_size) {
        futex(&turns, FUTEX_WAIT, seen);
        seen = atomic_fetch_add(&turns, 0);
    }
    futex(&turns, FUTEX_WAKE, 1000);
    return NULL;
}

// THREADS ROUNDS call|instruction
int main(int argc, char **argv)
{
    crew_size = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 300);
    by_instruction = argc > 3 && !strcmp(argv[3], "instruction");
    crew(crew_size, worker);
    show("lock", &transcript);
    return 0;
}
