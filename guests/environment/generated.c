// Code that the program makes itself, or that no file shows as such, asks for the time. Prints what it was told.
//
// usage: generated anonymous|protected|shared|file|stack THREADS

#include "../transcript.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, MOST = 8 };

typedef uint64_t clock_reader(void);

// rdtsc; shl $32,%rdx; or %rdx,%rax; ret. And rdtscp, which leaves a number in rcx.
static const unsigned char plain[] = {0x0F, 0x31, 0x48, 0xC1, 0xE2, 32, 0x48, 0x09, 0xD0, 0xC3};
static const unsigned char placed[] = {0x0F, 0x01, 0xF9, 0x48, 0xC1, 0xE2, 32, 0x48, 0x09, 0xD0, 0xC3};
// At the very end of a page that has none behind it, but for its `ret`.
enum { PLACED = 64, LAST = PAGE - sizeof plain };

static unsigned char *code;

static void fill(unsigned char *page)
{
    memset(page, 0x90, PAGE);
    memcpy(page, plain, sizeof plain);
    memcpy(page + PLACED, placed, sizeof placed);
    memcpy(page + LAST, plain, sizeof plain);
}

static void make(const char *how)
{
    const int all = PROT_READ | PROT_WRITE | PROT_EXEC;
    if (!strcmp(how, "anonymous")) {
        code = mmap(0, PAGE, all, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        must_be(code != MAP_FAILED);
        fill(code);
    } else if (!strcmp(how, "protected")) {
        code = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        must_be(code != MAP_FAILED);
        fill(code);
        must_be(mprotect(code, PAGE, PROT_READ | PROT_EXEC) == 0);
    } else if (!strcmp(how, "shared")) {
        // Written through another mapping than it is run from.
        int file = memfd_create("code", 0);
        must_be(file >= 0 && ftruncate(file, PAGE) == 0);
        unsigned char *other = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        code = mmap(0, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
        must_be(other != MAP_FAILED && code != MAP_FAILED);
        fill(other);
    } else if (!strcmp(how, "file")) {
        // Not a program: where its instructions begin nobody says.
        unsigned char page[PAGE];
        char name[] = "/tmp/generated-XXXXXX";
        int file = mkstemp(name);
        fill(page);
        must_be(file >= 0 && write(file, page, PAGE) == PAGE && unlink(name) == 0);
        code = mmap(0, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
        must_be(code != MAP_FAILED);
    } else {
        must_be(!strcmp(how, "stack"));
        static unsigned char *volatile page;
        page = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
        must_be(page != MAP_FAILED && mprotect(page, 2 * PAGE, all) == 0);
        code = page + PAGE;
        fill(code);
    }
}

static uint64_t ask(void)
{
    uint64_t first = ((clock_reader *)code)(), second = ((clock_reader *)(code + PLACED))();
    uint64_t third = ((clock_reader *)(code + LAST))();
    must_be(first != 0 && second > first && third > second);
    return first * 31 + second * 7 + third;
}

static void *thread(void *argument)
{
    uint64_t *sum = argument;
    sigset_t all;
    sigfillset(&all);
    must(pthread_sigmask(SIG_SETMASK, &all, 0));
    for (int i = 0; i < 20; i++)
        *sum = *sum * 31 + ask();
    return 0;
}

// Threads that are there before the code is: one waits in a call, one for a condition.
static int ends[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t made = PTHREAD_COND_INITIALIZER;
static int is_waiting, is_made;

static void *reader(void *argument)
{
    char byte;
    must_be(read(ends[0], &byte, 1) == 1);
    *(uint64_t *)argument = ask();
    return 0;
}

static void *waiter(void *argument)
{
    must(pthread_mutex_lock(&lock));
    is_waiting = 1;
    while (!is_made)
        must(pthread_cond_wait(&made, &lock));
    must(pthread_mutex_unlock(&lock));
    *(uint64_t *)argument = ask();
    return 0;
}

static sigjmp_buf back;
static volatile int met;

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    met = number;
    // Also inside the handler.
    must_be(ask() != 0);
    if (info->si_code > 0) {
        must_be(info->si_addr == 0);
        siglongjmp(back, 1);
    }
}

// The program's own faults are its own, before and afterwards.
static void faults(void)
{
    struct sigaction old;
    must_be(sigaction(SIGSEGV, 0, &old) == 0 && old.sa_sigaction == on_fault);
    for (int i = 0; i < 3; i++) {
        met = 0;
        if (sigsetjmp(back, 1) == 0)
            *(volatile int *)0 = 1;
        must_be(met == SIGSEGV);
        met = 0;
        raise(SIGSEGV);
        must_be(met == SIGSEGV);
    }
    fflush(stdout);
    int status;
    pid_t child = fork();
    if (child == 0) {
        must_be(sigaction(SIGSEGV, &(struct sigaction){.sa_handler = SIG_DFL}, 0) == 0);
        must_be(ask() != 0);
        *(volatile int *)0 = 1;
    }
    must_be(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

int main(int count, char **words)
{
    pthread_t all[MOST];
    uint64_t sums[MOST] = {0};
    must_be(count == 3);
    int threads = atoi(words[2]), right = 0, status;
    must_be(threads <= MOST);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, old;
    must_be(sigaction(SIGSEGV, &action, &old) == 0 && old.sa_handler == SIG_DFL);
    must(pipe(ends));
    must(pthread_create(&all[0], 0, reader, &sums[0]));
    must(pthread_create(&all[1], 0, waiter, &sums[1]));
    for (int waits = 0; !waits; usleep(1000)) {
        must(pthread_mutex_lock(&lock));
        waits = is_waiting;
        must(pthread_mutex_unlock(&lock));
    }
    make(words[1]);
    must_be(write(ends[1], "x", 1) == 1);
    must(pthread_mutex_lock(&lock));
    is_made = 1;
    must(pthread_cond_broadcast(&made));
    must(pthread_mutex_unlock(&lock));
    for (int i = 0; i < 2; i++) {
        must(pthread_join(all[i], 0));
        printf("before %lx\n", sums[i]);
    }
    for (int i = 0; i < 5; i++)
        printf("time %lu\n", ask());
    must_be(prctl(PR_GET_TSC, &right) == 0 && right == PR_TSC_ENABLE);
    must_be(prctl(PR_SET_TSC, PR_TSC_ENABLE) == 0);
    printf("time %lu\n", ask());
    for (int i = 0; i < threads; i++)
        must(pthread_create(&all[i], 0, thread, &sums[i]));
    for (int i = 0; i < threads; i++) {
        must(pthread_join(all[i], 0));
        printf("thread %lx\n", sums[i]);
    }
    faults();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        printf("child %lu\n", ask());
        fflush(stdout);
        execlp("date", "date", "+%N", (char *)0);
        _exit(1);
    }
    must_be(waitpid(child, &status, 0) == child && status == 0);
    printf("time %lu\n", ask());
    return 0;
}
