// Code that the kernel writes: a function comes out of a pipe, into memory that was
// run before, in one piece and in two.
#include "code.h"
#include <sys/uio.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;
static int rounds;

static void *worker(void *argument)
{
    unsigned who = (unsigned)(intptr_t)argument;
    int ends[2];
    must_be(pipe(ends) == 0);
    unsigned char *code = map(PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    unsigned char text[CODE_BYTES];
    for (unsigned round = 0; round < (unsigned)rounds; round++) {
        encode(text, round * 3);
        must_be(write(ends[1], text, sizeof text) == CODE_BYTES);
        must_be(read(ends[0], code, CODE_BYTES) == CODE_BYTES);
        must_be(call(code, who) == round * 3 + who);
        encode(text, round * 3 + 1);
        must_be(write(ends[1], text, sizeof text) == CODE_BYTES);
        struct iovec parts[2] = {{code, 3}, {code + 3, CODE_BYTES - 3}};
        must_be(readv(ends[0], parts, 2) == CODE_BYTES);
        must_be(call(code, who) == round * 3 + 1 + who);
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
    show("read_into", &transcript);
    return 0;
}
