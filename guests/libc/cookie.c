// A stream of the program's own making, without a buffer: its callback takes a mutex
// and waits on a condition inside the stream's lock, and prints to another stream.
// Meanwhile streams are opened, flushed all at once, replaced and closed. Flushing all and
// replacing exclude each other: glibc locks the list of streams and one stream in opposite
// orders in the two, so that a plain run deadlocks.
#include "../transcript.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t whole = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;
static int tokens;
static int rounds;
static int threads;
static FILE *stream;

static ssize_t on_write(void *cookie, const char *bytes, size_t count)
{
    (void)cookie;
    must(pthread_mutex_lock(&mutex));
    while (tokens == 0)
        must(pthread_cond_wait(&condition, &mutex));
    tokens--;
    note(&transcript, bytes[0]);
    must(pthread_mutex_unlock(&mutex));
    printf("%c", bytes[0]);
    return count;
}

static void give_tokens(void)
{
    for (int given = 0; given < threads * rounds; given++) {
        must(pthread_mutex_lock(&mutex));
        tokens++;
        must(pthread_cond_signal(&condition));
        must(pthread_mutex_unlock(&mutex));
        jitter();
    }
}

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    if (who == threads) {
        give_tokens();
        return NULL;
    }
    for (int round = 0; round < rounds; round++) {
        fprintf(stream, "%c", 'a' + who % 26);
        if (round % 5 == 0) {
            FILE *own = tmpfile();
            must_be(own != NULL);
            fputc('x', own);
            must(pthread_mutex_lock(&whole));
            must_be(fflush(NULL) == 0);
            if (round % 10 == 0)
                must_be((own = freopen("/dev/null", "w", own)) != NULL);
            must(pthread_mutex_unlock(&whole));
            fclose(own);
        }
        jitter();
    }
    return NULL;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 40);
    stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = on_write});
    must_be(stream != NULL && setvbuf(stream, NULL, _IONBF, 0) == 0);
    crew(threads + 1, worker);
    fclose(stream);
    putchar('\n');
    show("order", &transcript);
    return 0;
}
