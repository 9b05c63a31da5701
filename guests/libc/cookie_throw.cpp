// Callbacks of a stream throw through the C library: the stream must be free for the
// other threads afterwards.
#include "../transcript.h"
#include <stdexcept>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int calls;
static int rounds;
static int caught[MOST_THREADS];
static FILE *stream;

static ssize_t on_write(void *, const char *, size_t count)
{
    must(pthread_mutex_lock(&mutex));
    bool throws = ++calls % 7 == 0;
    must(pthread_mutex_unlock(&mutex));
    if (throws)
        throw std::runtime_error("on_write");
    return count;
}

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        try {
            fprintf(stream, "%c", 'a' + who % 26);
        } catch (const std::runtime_error &) {
            caught[who]++;
        }
        jitter();
    }
    return NULL;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 100);
    cookie_io_functions_t functions = {};
    functions.write = on_write;
    must_be((stream = fopencookie(NULL, "w", functions)) != NULL);
    must_be(setvbuf(stream, NULL, _IONBF, 0) == 0);
    crew(threads, worker);
    for (int who = 0; who < threads; who++)
        printf("caught %d %d\n", who, caught[who]);
    return 0;
}
