// What libc, the loader and the heap share between threads is their own business: no report.
#include "twins.h"
#include <dlfcn.h>
#include <locale.h>
#include <math.h>

#define ROUNDS 50

static FILE *stream;
static volatile int shared;

static void *printing(void *argument)
{
    char text[100];
    for (int round = 0; round < ROUNDS; round++) {
        fprintf(stream, "%d %f %s\n", round, round / 3.0, "text");
        snprintf(text, sizeof text, "%g %ls", round / 7.0, L"wide");
        fputs(text, stream);
        putc('\n', stream);
    }
    return argument;
}

// A stream's lock is a lock.
static void *holding_stream(void *argument)
{
    for (int round = 0; round < ROUNDS; round++) {
        flockfile(stream);
        shared = round;
        funlockfile(stream);
    }
    return argument;
}

static void *allocating(void *argument)
{
    void *blocks[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        blocks[round] = malloc((size_t)(round * round * 20 + 1));
        must_be(blocks[round] != NULL);
        memset(blocks[round], round, 1);
    }
    for (int round = 0; round < ROUNDS; round++)
        free(blocks[round]);
    return argument;
}

// From one thread's arena into the other one's hands.
static void *volatile handed;
static sem_t filled, emptied;

static void *giving(void *argument)
{
    for (int round = 0; round < ROUNDS; round++) {
        handed = malloc(100);
        must_be(handed != NULL);
        memset(handed, 1, 100);
        post(&filled);
        await(&emptied);
    }
    return argument;
}

static void *freeing(void *argument)
{
    for (int round = 0; round < ROUNDS; round++) {
        await(&filled);
        memset(handed, 2, 100);
        free(handed);
        post(&emptied);
    }
    return argument;
}

static void *times(void *argument)
{
    for (int round = 0; round < ROUNDS; round++) {
        time_t now = round * 1000000L;
        struct tm parts;
        must_be(localtime_r(&now, &parts) != NULL);
        char text[100];
        must_be(strftime(text, sizeof text, "%c", &parts) > 0);
        (void)mktime(&parts);
        (void)getenv("PATH");
        (void)strerror_r(round % 40, text, sizeof text);
    }
    return argument;
}

static void *numbers(void *argument)
{
    volatile double sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        (void)rand();
        (void)random();
        sum = sum + strtod("1.5e3", NULL) + sin((double)round) + lgamma_r(round + 1.0, &(int){0});
    }
    return argument;
}

static int by_number(const void *one, const void *other)
{
    return *(const int *)one - *(const int *)other;
}

static void *sorting(void *argument)
{
    int own[500];
    for (int at = 0; at < 500; at++)
        own[at] = at * 7919 % 500;
    qsort(own, 500, sizeof *own, by_number);
    must_be(own[499] == 499);
    return argument;
}

// Symbols bound at the first call, by both at once.
static void *loading(void *argument)
{
    for (int round = 0; round < 10; round++) {
        void *library = dlopen("libm.so.6", RTLD_LAZY);
        must_be(library != NULL);
        double (*cosine)(double) = (double (*)(double))dlsym(library, "cosh");
        must_be(cosine != NULL && cosine(0) == 1);
        must(dlclose(library));
    }
    return argument;
}

static void *files(void *argument)
{
    for (int round = 0; round < 10; round++) {
        FILE *own = fopen("/dev/null", "w");
        must_be(own != NULL);
        fprintf(own, "%d\n", round);
        must(fclose(own));
        fflush(NULL);
    }
    return argument;
}

static void *keys(void *argument)
{
    for (int round = 0; round < ROUNDS; round++) {
        pthread_key_t key;
        must(pthread_key_create(&key, NULL));
        must(pthread_setspecific(key, &key));
        must(pthread_key_delete(key));
    }
    return argument;
}

int main(int argc, char **argv)
{
    static const struct twins cases[] = {
        {"printing", printing, printing},       {"stream_lock", holding_stream, holding_stream},
        {"allocating", allocating, allocating}, {"handing", giving, freeing},
        {"times", times, times},                {"numbers", numbers, numbers},
        {"sorting", sorting, sorting},          {"loading", loading, loading},
        {"files", files, files},                {"keys", keys, keys},
        {"mixed", printing, allocating},
    };
    // Which thread reads the zone's file is decided by a lock of libc's that no recording orders.
    tzset();
    stream = fopen("/dev/null", "w");
    must_be(stream != NULL && sem_init(&filled, 0, 0) == 0 && sem_init(&emptied, 0, 0) == 0);
    run_chosen(cases);
    return 0;
}
