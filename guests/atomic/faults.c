// Instructions that change memory indivisibly where they fault: one that is left by
// a jump out of the handler, one that the handler mends and that runs again. Besides
// a child that is forked meanwhile, and a library that is opened meanwhile, both of
// which go on with atomics; and signals that strike anywhere.
#include "../transcript.h"
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>

static atomic_long counter, struck;
static atomic_long *page;
static __thread sigjmp_buf back;
static __thread volatile sig_atomic_t mends;
static int rounds;

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    if (mends) {
        must_be(mprotect((void *)((uintptr_t)info->si_addr & ~4095ul), 4096, PROT_READ | PROT_WRITE) == 0);
        return;
    }
    siglongjmp(back, 1);
}

static void on_alarm(int number)
{
    (void)number;
    atomic_fetch_add(&struck, 1);
}

static void *worker(void *argument)
{
    // Those that a jump out of a handler must find as they were.
    volatile uint64_t who = (uint64_t)(uintptr_t)argument, hash = who;
    for (volatile int round = 0; round < rounds; round++) {
        hash = fold(hash, (uint64_t)atomic_fetch_add(&counter, (long)who + 1));
        if (round % 16 == 3) {
            mends = 0;
            if (sigsetjmp(back, 1) == 0)
                atomic_fetch_add((atomic_long *)(uintptr_t)(8 * (who + 1)), 1);
            else
                hash = fold(hash, 17);
        }
        if (round % 16 == 7) {
            mends = 1;
            atomic_long *own = (atomic_long *)((char *)page + 4096 * who);
            must_be(mprotect(own, 4096, PROT_READ) == 0);
            hash = fold(hash, (uint64_t)atomic_fetch_add(own, 1));
        }
    }
    return (void *)(uintptr_t)hash;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 200);
    struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    struct sigaction alarm = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGSEGV, &fault, NULL);
    sigaction(SIGALRM, &alarm, NULL);
    page = mmap(NULL, 4096 * (size_t)threads, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must_be(page != MAP_FAILED);
    struct itimerval often = {{0, 700}, {0, 700}};
    setitimer(ITIMER_REAL, &often, NULL);
    pthread_t ids[MOST_THREADS];
    for (int i = 0; i < threads; i++)
        must(pthread_create(&ids[i], NULL, worker, (void *)(uintptr_t)i));
    for (int child = 0; child < 3; child++) {
        pid_t pid = fork();
        must_be(pid >= 0);
        if (pid == 0) {
            long seen = 0;
            for (int i = 0; i < 100; i++)
                seen = atomic_fetch_add(&counter, 1) - seen;
            printf("child %lx\n", seen);
            fflush(stdout);
            _exit(0);
        }
        must_be(waitpid(pid, NULL, 0) == pid);
    }
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 32);
    must_be(length > 0);
    path[length] = 0;
    strcpy(strrchr(path, '/'), "/library.so");
    void *library = dlopen(path, RTLD_NOW);
    must_be(library != NULL);
    long (*counts)(atomic_long *) = (long (*)(atomic_long *))dlsym(library, "counts");
    printf("library %lx\n", counts(&counter));
    for (int i = 0; i < threads; i++) {
        void *hash;
        must(pthread_join(ids[i], &hash));
        printf("%d %016llx\n", i, (unsigned long long)(uintptr_t)hash);
    }
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    printf("%lx %s\n", counter, struck > 0 ? "struck" : "spared");
    return 0;
}
