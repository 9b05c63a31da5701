// Functions that the guests of this folder write themselves, for x86-64.
#ifndef CODE_H
#define CODE_H

#include "../transcript.h"
#include <sys/mman.h>

#define PAGE 4096

typedef unsigned (*function)(unsigned);

// mov eax, value; lea eax, [rax + rdi]; ret
#define CODE_BYTES 9

static inline void encode(unsigned char *code, unsigned value)
{
    unsigned char bytes[CODE_BYTES] = {0xB8, 0, 0, 0, 0, 0x8D, 0x04, 0x38, 0xC3};
    memcpy(bytes + 1, &value, sizeof value);
    memcpy(code, bytes, sizeof bytes);
}

static inline unsigned char *map(int rights, int flags, int file)
{
    void *at = mmap(NULL, PAGE, rights, flags, file, 0);
    must_be(at != MAP_FAILED);
    return at;
}

// Calls it from one place, whichever it is.
static __attribute__((noinline, unused)) unsigned call(const unsigned char *code, unsigned argument)
{
    return ((function)(uintptr_t)code)(argument);
}

#endif
