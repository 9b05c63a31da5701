// Where everything of a program lies. Lines that begin with "at" are the same in every recording.
//
// usage: addresses [WORD...]

#include "../transcript.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/mman.h>

extern char **environ;
static int data = 3, zeros[5000];

static void *map(void *hint, size_t bytes, int flags)
{
    void *found = mmap(hint, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    must_be(found != MAP_FAILED);
    *(volatile char *)found = 1;
    return found;
}

static void mappings(void)
{
    char *a = map(0, 5000, 0), *b = map(0, 300000, 0), *c = map(0, 4 << 20, 0);
    must_be(munmap(a, 5000) == 0);
    char *again = map(0, 8192, 0);
    char *grown = mremap(b, 300000, 3000000, MREMAP_MAYMOVE);
    must_be(grown != MAP_FAILED && *grown == 1);
    char *shrunk = mremap(c, 4 << 20, 8192, 0);
    must_be(shrunk == c);
    printf("at mapped %p %p %p again %p grown %p\n", a, b, c, again, grown);
    void *wanted = map((void *)0x123450000000, 4096, 0), *low = map(0, 4096, MAP_32BIT);
    printf("at wanted %p low %p next %p\n", wanted, low, map(0, 4096, 0));
    must_be((unsigned long)low < 0x80000000ul);
    // A wish counts there, too, as long as all of it fits (SBCL dies if it does not).
    void *wish = (void *)0x51000000, *beyond = map((void *)0x7ffff000, 8192, MAP_32BIT);
    must_be(map(wish, 1 << 20, MAP_32BIT) == wish && (unsigned long)beyond <= 0x7fffe000ul);
    printf("at beyond %p\n", beyond);
    // More than are remembered, every second one given back, all used again.
    enum { MANY = 3000 };
    static char *many[MANY];
    for (int i = 0; i < MANY; i++)
        many[i] = map(0, 4096 * (1 + i % 7), 0);
    for (int i = 0; i < MANY; i += 2)
        must_be(munmap(many[i], 4096 * (1 + i % 7)) == 0);
    unsigned long sum = 0;
    for (int i = 0; i < MANY; i += 2)
        sum = sum * 31 + (unsigned long)(many[i] = map(0, 4096 * (1 + i % 5), 0));
    printf("at many %lx\n", sum);
    for (int i = 0; i < 3; i++)
        printf("at wide %p\n", mmap(0, 700ul << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
}

static void breaks(void)
{
    char *start = sbrk(0);
    must_be(sbrk(1 << 20) == start);
    memset(start, 7, 1 << 20);
    must_be(sbrk(-(1 << 19)) == start + (1 << 20));
    printf("at break %p to %p\n", start, sbrk(0));
}

static int deep(int left)
{
    volatile char room[4096];
    room[0] = left;
    return left == 0 ? room[0] : deep(left - 1) + room[0];
}

int main(int count, char **arguments)
{
    int local;
    printf("at code %p data %p zeros %p stack %p\n", main, &data, zeros, &local);
    printf("at heap %p large %p libc %p\n", malloc(100), malloc(1 << 20), dlsym(RTLD_DEFAULT, "printf"));
    printf("at image %lx headers %lx loader %lx entry %lx\n", getauxval(AT_SYSINFO_EHDR), getauxval(AT_PHDR),
           getauxval(AT_BASE), getauxval(AT_ENTRY));
    printf("at environ %p %p argv %p %p name %lx random %lx\n", environ, environ[0], arguments, arguments[count - 1],
           getauxval(AT_EXECFN), getauxval(AT_RANDOM));
    mappings();
    breaks();
    pthread_attr_t attributes;
    void *lowest;
    size_t bytes;
    must_be(pthread_getattr_np(pthread_self(), &attributes) == 0);
    must_be(pthread_attr_getstack(&attributes, &lowest, &bytes) == 0);
    must_be((char *)&local > (char *)lowest && (char *)&local < (char *)lowest + bytes);
    // As far down as there is room, up to a few megabytes.
    int frames = (bytes - (128 << 10)) / 4500;
    size_t threads;
    must_be(pthread_getattr_default_np(&attributes) == 0 && pthread_attr_getstacksize(&attributes, &threads) == 0);
    printf("%d deep, stack of %zu, threads' of %zu\n", deep(frames < 1500 ? frames : 1500), bytes >> 12, threads >> 12);
    unsigned char *random = (unsigned char *)getauxval(AT_RANDOM);
    printf("random ");
    for (int i = 0; i < 16; i++)
        printf("%02x", random[i]);
    unsigned long canary;
    __asm__("mov %%fs:0x28, %0" : "=r"(canary));
    printf(" canary %lx\n", canary);
    return 7;
}
