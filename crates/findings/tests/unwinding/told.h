/* Writes findings to standard output as the replayed process does (see src/wire.rs): for each call of take() a race
   whose first access has a snapshot of the place, and whose second has what the compiler's own unwinder says of it. */
#define _GNU_SOURCE
#include <execinfo.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { HEADER = 1, MODULE = 2, RACE = 5, ACCESS = 6, STACK = 11, TEXT = 13, END = 16, SNAPSHOT = 17 };
enum { WORDS = 1024, FRAMES = 256 };

/* rip, rsp, rbp, rbx, r12 to r15. */
uint64_t told_registers[8];
void take(void);

static void record(uint64_t tag, size_t count, const uint64_t *words) {
    uint64_t head[] = {tag, count};
    fwrite(head, 8, 2, stdout);
    fwrite(words, 8, count, stdout);
}

static void modules(void) {
    char line[5000], path[4500], rights[5];
    uint64_t start, end, offset;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) {
        int found = sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %4499s", &start, &end, rights, &offset, path);
        if (found == 5 && path[0] == '/' && rights[2] == 'x') {
            uint64_t module[] = {start, end, start - offset, 0};
            uint64_t text[600] = {strlen(path)};
            memcpy(text + 1, path, text[0]);
            record(MODULE, 4, module);
            record(TEXT, 1 + (text[0] + 7) / 8, text);
        }
    }
    fclose(maps);
}

/* What stands at `from` and above, page by page, until a page is missing. */
static size_t stack_words(uint64_t from, uint64_t *words) {
    size_t read = 0;
    while (read < WORDS * 8) {
        size_t part = 4096 - (from + read) % 4096;
        part = part < WORDS * 8 - read ? part : WORDS * 8 - read;
        struct iovec here = {(char *)words + read, part}, there = {(void *)(from + read), part};
        if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != (ssize_t)part)
            break;
        read += part;
    }
    return read / 8;
}

static void told_race(const uint64_t *registers, size_t depth, const uint64_t *truth) {
    static uint64_t snapshot[8 + WORDS];
    const uint64_t race[] = {0x1000, 1, 0, 0, 1}, access[9] = {0};
    memcpy(snapshot, registers, 64);
    size_t count = stack_words(registers[1], snapshot + 8);
    record(RACE, 5, race);
    record(ACCESS, 9, access);
    record(SNAPSHOT, 8 + count, snapshot);
    record(ACCESS, 9, access);
    record(STACK, depth, truth);
}

/* take() jumps here with its caller's frame still the next one. */
__attribute__((noinline, used)) void told(void) {
    uint64_t truth[FRAMES];
    int depth = backtrace((void **)truth, FRAMES);
    truth[0] = told_registers[0];
    modules();
    told_race(told_registers, depth, truth);
}

__asm__(".text\n"
        ".hidden told_registers\n"
        ".hidden told\n"
        ".hidden take\n"
        ".globl take\n"
        ".type take, @function\n"
        "take:\n"
        ".cfi_startproc\n"
        "lea take(%rip), %rax\n"
        "mov %rax, told_registers(%rip)\n"
        "mov %rsp, 8+told_registers(%rip)\n"
        "mov %rbp, 16+told_registers(%rip)\n"
        "mov %rbx, 24+told_registers(%rip)\n"
        "mov %r12, 32+told_registers(%rip)\n"
        "mov %r13, 40+told_registers(%rip)\n"
        "mov %r14, 48+told_registers(%rip)\n"
        "mov %r15, 56+told_registers(%rip)\n"
        "jmp told\n"
        ".cfi_endproc\n"
        ".size take, .-take\n");

__attribute__((constructor)) static void begin(void) {
    uint64_t header[] = {0, 3};
    void *first[1];
    memcpy(header, "relvfind", 8);
    record(HEADER, 2, header);
    backtrace(first, 1); /* loads the unwinder */
}

__attribute__((destructor)) static void end(void) {
    record(END, 0, NULL);
}

#ifdef __cplusplus
}
#endif
