// What this level cannot record and says so: a new namespace of libraries,
// cancellation at any instruction, a thread that the kernel alone knows of.
#include "../transcript.h"
#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;

static void *worker(void *argument)
{
    for (int round = 0; round < 30; round++) {
        must(pthread_mutex_lock(&mutex));
        note(&transcript, (intptr_t)argument);
        must(pthread_mutex_unlock(&mutex));
        jitter();
    }
    return NULL;
}

static void *cancelled(void *argument)
{
    int old;
    must(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old));
    for (;;)
        pause_for(1000000);
    return argument;
}

// Shares all but a C library's idea of a thread; its lock is what gives it away.
static int unknown(void *argument)
{
    (void)argument;
    must(pthread_mutex_lock(&mutex));
    note(&transcript, 20);
    must(pthread_mutex_unlock(&mutex));
    return 0;
}

static void clone_thread(void)
{
    static char stack[65536] __attribute__((aligned(16)));
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | SIGCHLD;
    pid_t id = clone(unknown, stack + sizeof stack, flags, NULL);
    must_be(id > 0);
    must_be(waitpid(id, NULL, 0) == id);
}

// THREADS namespace|asynchronous|clone
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 2);
    const char *what = word(argc, argv, 2, "namespace");
    crew(threads, worker);
    if (is(what, "namespace")) {
        printf("%s\n", dlmopen(LM_ID_NEWLM, "libm.so.6", RTLD_NOW) ? "opened" : "refused");
    } else if (is(what, "asynchronous")) {
        pthread_t id;
        void *result;
        must(pthread_create(&id, NULL, cancelled, NULL));
        pause_for(1000000);
        must(pthread_cancel(id));
        must(pthread_join(id, &result));
        printf("%s\n", result == PTHREAD_CANCELED ? "cancelled" : "ended");
    } else {
        clone_thread();
    }
    crew(threads, worker);
    show("order", &transcript);
    return 0;
}
