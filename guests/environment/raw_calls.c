// A library that is opened late and makes its calls itself: with the instruction, past libc.
//
// Built twice, with LIBRARY as the library.
//
// usage: raw_calls LIBRARY THREADS
//        raw_calls LIBRARY measure ROUNDS

#ifdef LIBRARY

#include <stdint.h>
#include <stddef.h>
#include <sys/syscall.h>

// With room behind its return.
__attribute__((aligned(32))) long raw_call(long number, long first, long second, long third)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(first), "S"(second), "d"(third) : "rcx", "r11", "memory");
    return result;
}

// As libc's: the comparison behind the instruction is run elsewhere.
__attribute__((aligned(32))) long checked_call(long number, long first, long second, long third)
{
    long result;
    __asm__ volatile("syscall; cmp $-4096,%%rax; jbe 1f; neg %%rax; or $1<<20,%%rax; 1:"
                     : "=a"(result) : "a"(number), "D"(first), "S"(second), "d"(third) : "rcx", "r11", "memory", "cc");
    return result;
}

uint64_t late_time(void)
{
    return __builtin_ia32_rdtsc();
}

#else

#include "../transcript.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/random.h>

typedef long call(long number, long first, long second, long third);
typedef uint64_t get_time(void);

struct library {
    void *handle;
    call *raw, *checked;
    get_time *time;
};

static struct library open_it(const char *path)
{
    struct library found = {.handle = dlopen(path, RTLD_NOW)};
    must_be(found.handle != 0);
    found.raw = (call *)(uintptr_t)dlsym(found.handle, "raw_call");
    found.checked = (call *)(uintptr_t)dlsym(found.handle, "checked_call");
    found.time = (get_time *)(uintptr_t)dlsym(found.handle, "late_time");
    must_be(found.raw && found.checked && found.time);
    return found;
}

// What stands where the instruction was.
static unsigned site(call *function)
{
    const unsigned char *code = (const unsigned char *)(uintptr_t)function;
    for (int i = 0; i < 40; i++) {
        if (code[i] == 0x0F && code[i + 1] == 0x05)
            return 0x0F05;
        if (code[i] == 0xE9)
            return 0xE9;
    }
    return 0;
}

static uint64_t use(const struct library *library)
{
    uint64_t sum = 0, random[4];
    struct timespec now;
    for (int i = 0; i < 50; i++) {
        call *function = i % 2 ? library->raw : library->checked;
        must_be(function(SYS_getpid, 0, 0, 0) == getpid());
        must_be(function(SYS_clock_gettime, CLOCK_REALTIME, (long)&now, 0) == 0);
        must_be(function(SYS_getrandom, (long)random, sizeof random, 0) == sizeof random);
        sum = sum * 31 + now.tv_nsec + random[0] + random[3] + library->time();
    }
    must_be(library->raw(SYS_close, -1, 0, 0) == -EBADF);
    must_be(library->checked(SYS_close, -1, 0, 0) == (EBADF | 1 << 20));
    return sum;
}

static const char *path;
static pthread_barrier_t all_there;

static void *thread(void *argument)
{
    uint64_t *sum = argument;
    pthread_barrier_wait(&all_there);
    for (int i = 0; i < 3; i++) {
        struct library library = open_it(path);
        *sum = *sum * 31 + use(&library);
        must_be(dlclose(library.handle) == 0);
    }
    pthread_barrier_wait(&all_there);
    return 0;
}

static void measure(const struct library *library, long rounds)
{
    struct timespec start, end;
    call *both[] = {library->raw, library->checked};
    for (int i = 0; i < 2; i++) {
        clock_gettime(CLOCK_MONOTONIC, &start);
        for (long round = 0; round < rounds; round++)
            both[i](SYS_getpid, 0, 0, 0);
        clock_gettime(CLOCK_MONOTONIC, &end);
        printf("getpid %.0f ns\n", ((end.tv_sec - start.tv_sec) * 1e9 + end.tv_nsec - start.tv_nsec) / rounds);
    }
}

int main(int count, char **words)
{
    enum { MOST = 8 };
    must_be(count >= 3);
    path = words[1];
    struct library library = open_it(path);
    if (count > 3) {
        measure(&library, atol(words[3]));
        return 0;
    }
    int threads = atoi(words[2]);
    pthread_t all[MOST];
    uint64_t sums[MOST] = {0};
    must_be(threads <= MOST);
    printf("sites %x %x\n", site(library.raw), site(library.checked));
    printf("one %lx\n", use(&library));
    // Writable for a moment, as for relocations.
    char *page = (char *)((uintptr_t)library.raw & ~4095ul);
    must_be(mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0);
    page[0] = *(volatile char *)page;
    must_be(mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0);
    printf("two %lx\n", use(&library));
    must_be(dlclose(library.handle) == 0);
    for (int i = 0; i < 3; i++) {
        library = open_it(path);
        printf("again %lx\n", use(&library));
        must_be(dlclose(library.handle) == 0);
    }
    must_be(pthread_barrier_init(&all_there, 0, threads + 1) == 0);
    for (int i = 0; i < threads; i++)
        must_be(pthread_create(&all[i], 0, thread, &sums[i]) == 0);
    // No thread is made or ends while libraries are opened.
    pthread_barrier_wait(&all_there);
    pthread_barrier_wait(&all_there);
    for (int i = 0; i < threads; i++) {
        must_be(pthread_join(all[i], 0) == 0);
        printf("thread %lx\n", sums[i]);
    }
    return 0;
}

#endif
