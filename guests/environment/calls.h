// What the guests share that make system calls: each call prints its name and its result, and then every byte that the
// kernel may have written.
//
// Room for such bytes is filled with a pattern and ends where memory ends: a recording that keeps less than the kernel
// wrote replays the pattern, one that keeps more reads memory that is not there.
#ifndef CALLS_H
#define CALLS_H

#include "../transcript.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>

// Calls that are younger than the headers.
enum {
    SYS_cachestat = 451,
    SYS_fchmodat2,
    SYS_map_shadow_stack,
    SYS_futex_wake,
    SYS_futex_wait,
    SYS_futex_requeue,
    SYS_statmount,
    SYS_listmount,
    SYS_lsm_get_self_attr,
    SYS_lsm_set_self_attr,
    SYS_lsm_list_modules,
    SYS_mseal,
    SYS_setxattrat,
    SYS_getxattrat,
    SYS_listxattrat,
    SYS_removexattrat,
    SYS_open_tree_attr,
    SYS_file_getattr,
    SYS_file_setattr,
    SYS_listns,
    SYS_rseq_slice_yield,
};

// Makes a call; what is not given is zero. The test looks for these words to know which calls are made.
#define CALL(name, ...) CALL_WITH(#name, SYS_##name, ##__VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define CALL_WITH(name, number, a, b, c, d, e, f, ...) \
    made(name, number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

static inline long said(const char *name, long result)
{
    int error = errno;
    if (result == -1)
        printf("%s: %s\n", name, strerrorname_np(error));
    else
        printf("%s: %ld\n", name, result);
    errno = error;
    return result;
}

static inline long made(const char *name, long number, long a, long b, long c, long d, long e, long f)
{
    return said(name, syscall(number, a, b, c, d, e, f));
}

// What came of a call that was made in another way.
#define CAME(name, result) said(#name, result)

#define PATTERN 0xa5

// So many bytes, with nothing behind them.
static inline void *room(size_t bytes)
{
    size_t pages = (bytes + 4095) / 4096 * 4096;
    unsigned char *start = mmap(NULL, pages + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must_be(start != MAP_FAILED);
    must_be(mprotect(start + pages, 4096, PROT_NONE) == 0);
    memset(start, PATTERN, pages);
    return start + pages - bytes;
}

// Room that holds these bytes, for what the kernel reads and writes.
static inline void *copy_of(const void *bytes, size_t count)
{
    return memcpy(room(count), bytes, count);
}

// A word of 32 bits in room of its own.
static inline unsigned *word_of(unsigned value)
{
    return copy_of(&value, sizeof value);
}

// Prints bytes: few as they are, many as a hash and their beginning.
static inline void bytes(const char *what, const void *pointer, size_t count)
{
    const unsigned char *at = pointer;
    uint64_t hash = 7;
    for (size_t i = 0; i < count; i++)
        hash = fold(hash, at[i]);
    printf("  %s %zu %016llx ", what, count, (unsigned long long)hash);
    for (size_t i = 0; i < count && i < 64; i++)
        printf("%02x", at[i]);
    printf("\n");
}

// Prints the bytes and fills them with the pattern again.
static inline void wrote(const char *what, void *pointer, size_t count)
{
    bytes(what, pointer, count);
    memset(pointer, PATTERN, count);
}

#endif
