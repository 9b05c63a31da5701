// Code that is unmapped, and other code where it was: mapped there on purpose, moved
// there, or mapped over it.
#include "code.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;
static int rounds;

// A function at this address, in memory that can't be written any more.
static void make(unsigned char *at, unsigned value, int flags)
{
    must_be(mmap(at, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0) == at);
    encode(at, value);
    must_be(mprotect(at, PAGE, PROT_READ | PROT_EXEC) == 0);
}

static void *worker(void *argument)
{
    unsigned who = (unsigned)(intptr_t)argument;
    // Pages between others: what is unmapped there nobody else takes, because nobody maps so little.
    unsigned char *room = mmap(NULL, 5 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must_be(room != MAP_FAILED);
    unsigned char *code = room + PAGE, *other = room + 3 * PAGE;
    for (unsigned round = 0; round < (unsigned)rounds; round++) {
        make(code, round, MAP_FIXED);
        must_be(call(code, 1) == round + 1);
        make(other, round + 5, MAP_FIXED);
        must_be(call(other, 1) == round + 6);
        must_be(mremap(other, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, code) == code);
        must_be(call(code, 1) == round + 6);
        must_be(munmap(code, PAGE) == 0);
        make(code, round + 9, MAP_FIXED_NOREPLACE);
        must_be(call(code, 1) == round + 10);
        must(pthread_mutex_lock(&mutex));
        note(&transcript, who);
        must(pthread_mutex_unlock(&mutex));
        jitter();
    }
    return NULL;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 2);
    rounds = number(argc, argv, 2, 50);
    crew(threads, worker);
    show("reused", &transcript);
    return 0;
}
