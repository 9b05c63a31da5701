// Tables among code, as some compilers lay them before each place where a call comes back: what is returned to reads what
// stands before it. Their last bytes look like instructions that read the outside, and like a system call; whoever
// changed them would be seen.
//
// usage: tables ROUNDS

#include "../transcript.h"

typedef uint64_t reader(void);

// What is on the stack, the kind, and the distance of another table; then the code that is returned to, which adds them up.
#define READER(name, begin, end, distance)                                                                             \
    reader name;                                                                                                       \
    __asm__(".text\n.globl " #name "\n.p2align 4\n" begin #name ":\n"                                                  \
            "lea 1f(%rip),%rcx; mov $3,%edx; jmp *%rcx\n"                                                              \
            ".quad 5; .long 24; .long " #distance "\n"                                                                 \
            "1: mov -16(%rcx),%rax; mov -8(%rcx),%esi; add %rsi,%rax; mov -4(%rcx),%esi; add %rsi,%rax\n"              \
            "lea -48(%rbp),%rdx; cmp %r15,%rdx; jb 2f; nop\n2: ret\n" end)

// Whose extent unwinders are told, as one function, and whose nobody is.
#define TOLD(name, distance) READER(name, ".cfi_startproc\n", ".cfi_endproc\n", distance)
#define UNTOLD(name, distance) READER(name, "", "", distance)

#define EACH(of)                                                                                                       \
    of(time, 0x02310FF0) of(processor, 0x01A20FF0) of(time_without_lock, 0x02310F00) of(place, 0x00F9010F)            \
    of(number, 0x00F0C70F) of(call, 0x00050F00)
#define DEFINE(name, distance) TOLD(told_##name, distance); UNTOLD(untold_##name, distance);
#define LIST(name, distance) {told_##name, distance}, {untold_##name, distance},

EACH(DEFINE)

static const struct {
    reader *reader;
    uint64_t distance;
} tables[] = {EACH(LIST)};

int main(int argc, char **argv)
{
    for (int rounds = number(argc, argv, 1, 10); rounds > 0; rounds--)
        for (size_t which = 0; which < sizeof tables / sizeof *tables; which++)
            must_be(tables[which].reader() == 5 + 24 + tables[which].distance);
    puts("as they were");
    return 0;
}
