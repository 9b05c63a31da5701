// A function in memory that is writable and executable at once, rewritten many
// times by each thread, next to data of the same page that is written all the time.
#include "code.h"

static struct transcript transcript;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned char *shared;
static int rounds;

static void *worker(void *argument)
{
    unsigned who = (unsigned)(intptr_t)argument;
    unsigned char *own = map(PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    unsigned *count = (unsigned *)(own + PAGE / 2);
    for (int round = 0; round < rounds; round++) {
        unsigned value = (unsigned)round * 2654435761u + who;
        encode(own, value);
        *count += 1;
        must_be(call(own, who) == value + who);
        must_be(*count == (unsigned)round + 1);
        // Few versions, in turn.
        encode(own, value % 3);
        must_be(call(own, 1) == value % 3 + 1);
        must(pthread_mutex_lock(&mutex));
        encode(shared, value);
        note(&transcript, call(shared, 0));
        must(pthread_mutex_unlock(&mutex));
        jitter();
    }
    must_be(munmap(own, PAGE) == 0);
    return NULL;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 2);
    rounds = number(argc, argv, 2, 50);
    shared = map(PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    crew(threads, worker);
    show("rewritten", &transcript);
    return 0;
}
