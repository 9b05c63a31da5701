// Every kind of instruction that changes memory indivisibly, in every size, with
// operands on the stack, in static memory, behind one and two registers, and next
// to each other: what each of them returned goes into its thread's hash.
//
// Inline atomics and nothing else hand over here.
#include "../transcript.h"
#include <stdatomic.h>

static _Atomic(uint64_t) eight;
static _Atomic(uint32_t) four[16];
static _Atomic(uint16_t) two;
static _Atomic(uint8_t) one;
static unsigned bits, table[2];
static unsigned __int128 sixteen __attribute__((aligned(16)));
static _Atomic(uint64_t) *on_stack;
static int rounds;

// Flags, red zone and registers must be what they were but for the instruction itself.
static uint64_t by_hand(uint64_t value)
{
    uint64_t old = value, ten = 10;
    unsigned char carry;
    __asm__ volatile("cmp %4, %1\n\tlock xadd %0, %2\n\tsetc %3"
                     : "+r"(old), "+r"(ten), "+m"(eight), "=q"(carry)
                     : "r"(value));
    // Two of two bytes each, side by side, and a jump that goes by flags from before them.
    uint32_t first = (uint32_t)value, second = first + 1;
    unsigned char below;
    __asm__ volatile("cmp $7, %4\n\txchg %0, (%2)\n\txchg %1, (%3)\n\tsetb %b4"
                     : "+r"(first), "+r"(second)
                     : "r"(&four[0]), "r"(&four[1]), "a"(value)
                     : "memory", "cc");
    __asm__ volatile("lock btsl %2, %0\n\tsetc %1" : "+m"(bits), "=q"(below) : "Ir"((int)(value & 31)) : "cc");
    uint64_t low = (uint64_t)value, high = value + 1, seen_low = low, seen_high = high;
    unsigned char was;
    __asm__ volatile("lock cmpxchg16b %0\n\tsete %1"
                     : "+m"(sixteen), "=q"(was), "+a"(seen_low), "+d"(seen_high)
                     : "b"(low), "c"(high)
                     : "cc");
    return fold(fold(fold(old + carry, first ^ (uint64_t)second << 32), below + 2 * was), seen_low ^ seen_high);
}

// Short instructions right where the table of a switch leads to, and right behind them.
__attribute__((noinline)) static uint64_t by_table(unsigned which, unsigned *at)
{
    unsigned old = which;
    switch (which) {
    case 0: __asm__ volatile("lock incl (%0)" : : "r"(at) : "memory", "cc"); return 11;
    case 1: __asm__ volatile("lock decl (%0)" : : "r"(at) : "memory", "cc"); __attribute__((fallthrough));
    case 2: __asm__ volatile("xchg %0, (%1)" : "+r"(old) : "r"(at) : "memory"); __attribute__((fallthrough));
    case 3: __asm__ volatile("xchg %0, (%1)" : "+r"(old) : "r"(at) : "memory"); return old;
    case 4: __asm__ volatile("lock negl (%0)" : : "r"(at) : "memory", "cc"); __attribute__((fallthrough));
    case 5: __asm__ volatile("lock notl (%0)" : : "r"(at) : "memory", "cc"); return 13;
    case 6: return *(volatile unsigned *)&old * 3;
    default: __asm__ volatile("lock xadd %0, (%1)" : "+r"(old) : "r"(at) : "memory", "cc"); return old;
    }
}

// Three labels with an instruction of the shortest kind between each two.
#define EXCHANGE(label)                                                                                                \
    label:                                                                                                             \
    __asm__ volatile("xchg %0, (%1)" : "+r"(old) : "r"(at) : "memory")
#define EXCHANGES                                                                                                      \
    EXCHANGE(swap);                                                                                                    \
    EXCHANGE(between);                                                                                                 \
    EXCHANGE(again);

// The same for a table of labels, by which interpreters jump from each instruction to the next. Behind the first two
// nobody jumps, right behind the others somebody does.
__attribute__((noinline)) static uint64_t by_labels(unsigned program, unsigned *at)
{
    static void *const labels[] = {&&end, &&up, &&down, &&swap, &&between, &&again};
    uint64_t result = program;
    unsigned old = program;
#define NEXT()                                                                                                         \
    do {                                                                                                               \
        unsigned next = program % 8;                                                                                   \
        program /= 8;                                                                                                  \
        goto *labels[next > 5 ? 0 : next];                                                                             \
    } while (0)
    NEXT();
up:
    __asm__ volatile("lock incl (%0)\n\tnop\n\tnop" : : "r"(at) : "memory", "cc");
    result = result * 5 + 1;
    NEXT();
down:
    __asm__ volatile("lock decl (%0)\n\tnop\n\tnop" : : "r"(at) : "memory", "cc");
    result = result * 5 + 2;
    NEXT();
EXCHANGES
    result = result * 5 + old;
    NEXT();
end:
    return result;
#undef NEXT
}

// And for a program that is made of the labels themselves, so that no jump says where they stand.
__attribute__((noinline)) static uint64_t by_program(unsigned which, unsigned *at)
{
    static void *const labels[] = {&&swap, &&between, &&again};
    void *program[] = {labels[which % 3], labels[which / 3 % 3], labels[which / 9 % 3], &&end}, **next = program;
    uint64_t result = which;
    unsigned old = which;
    goto *(*next++);
EXCHANGES
    result = result * 5 + old;
    goto *(*next++);
end:
    return result;
}

static void *worker(void *argument)
{
    uint64_t who = (uint64_t)(uintptr_t)argument, hash = who;
    for (int round = 0; round < rounds; round++) {
        uint64_t value = who * 1000 + (uint64_t)round;
        hash = fold(hash, atomic_fetch_add(&eight, value));
        hash = fold(hash, atomic_fetch_sub(&four[value % 16], 3));
        hash = fold(hash, atomic_exchange(&two, (uint16_t)value));
        hash = fold(hash, atomic_fetch_xor(&one, (uint8_t)value));
        hash = fold(hash, atomic_fetch_or(on_stack, 1ull << (value % 64)));
        hash = fold(hash, atomic_fetch_and(on_stack, ~(1ull << (value % 61))));
        uint32_t expected = (uint32_t)value;
        hash = fold(hash, atomic_compare_exchange_strong(&four[round % 16], &expected, (uint32_t)hash));
        hash = fold(hash, expected);
        hash = fold(hash, by_hand(value));
        hash = fold(hash, by_table((unsigned)(value % 9), &table[value % 2]));
        hash = fold(hash, by_labels((unsigned)value * 2654435761u >> 8, &table[value % 2]));
        hash = fold(hash, by_program((unsigned)(value % 27), &table[value % 2]));
        if (round % 32 == 0)
            jitter();
    }
    return (void *)(uintptr_t)hash;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 500);
    _Atomic(uint64_t) local = 0;
    on_stack = &local;
    pthread_t ids[MOST_THREADS];
    for (int i = 0; i < threads; i++)
        must(pthread_create(&ids[i], NULL, worker, (void *)(uintptr_t)i));
    for (int i = 0; i < threads; i++) {
        void *hash;
        must(pthread_join(ids[i], &hash));
        printf("%d %016llx\n", i, (unsigned long long)(uintptr_t)hash);
    }
    printf("%llx %x %x %x %x\n", (unsigned long long)local, four[3], two, one, bits);
    return 0;
}
