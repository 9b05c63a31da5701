// Synchronisation before main and after it: in the pre-initialiser, which runs
// before any library's constructor, in a constructor that starts threads, and in a
// destructor that does.
#include "../transcript.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;

static void *worker(void *argument)
{
    for (int round = 0; round < 20; round++) {
        must(pthread_mutex_lock(&mutex));
        note(&transcript, (intptr_t)argument);
        must(pthread_mutex_unlock(&mutex));
        jitter();
    }
    return NULL;
}

static void before_all(int argc, char **argv, char **environment)
{
    (void)argc;
    (void)argv;
    (void)environment;
    must(pthread_mutex_lock(&mutex));
    note(&transcript, 30);
    must(pthread_mutex_unlock(&mutex));
}

__attribute__((section(".preinit_array"), used)) static void (*const first)(int, char **, char **) = before_all;

__attribute__((constructor)) static void before_main(void)
{
    crew(3, worker);
}

__attribute__((destructor)) static void behind_main(void)
{
    crew(3, worker);
    show("end", &transcript);
    fflush(stdout);
}

// THREADS
int main(int argc, char **argv)
{
    show("start", &transcript);
    crew(number(argc, argv, 1, 4), worker);
    show("order", &transcript);
    return 0;
}
