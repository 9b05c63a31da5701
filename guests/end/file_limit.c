// Lives under a file size limit that its trace outgrows: growing the trace must
// not kill it with SIGXFSZ.
#include "../transcript.h"
#include <sys/resource.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;
static int rounds;

static void *worker(void *argument)
{
    for (int round = 0; round < rounds; round++) {
        must(pthread_mutex_lock(&mutex));
        note(&transcript, (intptr_t)argument);
        must(pthread_mutex_unlock(&mutex));
        if (round % 64 == 0)
            jitter();
    }
    return NULL;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 100000);
    struct rlimit small = {4096, 4096};
    must_be(setrlimit(RLIMIT_FSIZE, &small) == 0);
    crew(threads, worker);
    show("order", &transcript);
    return 0;
}
