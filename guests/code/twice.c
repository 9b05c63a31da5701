// Code mapped twice, as compilers at run time have it: written through one mapping of
// a memory file or of a file without a name, run through another that can't be written.
#include "code.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;
static int rounds;
static const char *how;

static int open_file(const char *what)
{
    if (is(what, "memory"))
        return memfd_create("code", 0);
    char name[] = "code-XXXXXX";
    int file = mkstemp(name);
    must_be(file >= 0 && unlink(name) == 0);
    return file;
}

static void *worker(void *argument)
{
    unsigned who = (unsigned)(intptr_t)argument;
    int file = open_file(who % 2 == 0 ? "memory" : "file");
    must_be(file >= 0 && ftruncate(file, PAGE) == 0);
    unsigned char *writable = map(PROT_READ | PROT_WRITE, MAP_SHARED, file);
    // The second kind becomes executable later, as a loader has it.
    unsigned char *code = map(is(how, "late") ? PROT_READ : PROT_READ | PROT_EXEC, MAP_SHARED, file);
    must_be(mprotect(code, PAGE, PROT_READ | PROT_EXEC) == 0);
    for (int round = 0; round < rounds; round++) {
        unsigned value = (unsigned)round * 40503u + who;
        encode(writable, value);
        must_be(call(code, 1) == value + 1);
        if (is(how, "call")) {
            // It goes through no mapping at all.
            value += 7;
            must_be(pwrite(file, &value, sizeof value, 1) == sizeof value);
            must_be(call(code, 1) == value + 1);
        }
        must(pthread_mutex_lock(&mutex));
        note(&transcript, value);
        must(pthread_mutex_unlock(&mutex));
        jitter();
    }
    must_be(munmap(code, PAGE) == 0 && munmap(writable, PAGE) == 0 && close(file) == 0);
    return NULL;
}

// THREADS ROUNDS early|late|call
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 2);
    rounds = number(argc, argv, 2, 50);
    how = word(argc, argv, 3, "early");
    crew(threads, worker);
    show("twice", &transcript);
    return 0;
}
