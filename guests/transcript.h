// What every guest shares: a transcript that shows the order of effects, and
// ways to disturb that order.
//
// A guest proves an order by noting who did something while it holds the
// primitive under test; a replay that lets them through in another order prints
// another hash. No guest has a data race or an inline atomic unless its first
// lines say so: what is not protected by the primitive is private to a thread.
#ifndef TRANSCRIPT_H
#define TRANSCRIPT_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MOST_THREADS 1024

struct transcript {
    uint64_t hash;
    unsigned long effects;
    char first[65];
};

static inline uint64_t fold(uint64_t hash, uint64_t value)
{
    hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
    hash *= 0xff51afd7ed558ccdu;
    return hash ^ (hash >> 33);
}

// The caller holds whatever orders this transcript.
static inline void note(struct transcript *transcript, uint64_t what)
{
    transcript->hash = fold(transcript->hash, what);
    if (transcript->effects < 64)
        transcript->first[transcript->effects] = "0123456789abcdefghijklmnopqrstuvwxyz"[what % 36];
    transcript->effects++;
}

static inline void show(const char *name, const struct transcript *transcript)
{
    printf("%s %016llx %lu %s\n", name, (unsigned long long)transcript->hash, transcript->effects, transcript->first);
}

static inline void fail(const char *file, int line, const char *what, int error)
{
    fprintf(stderr, "%s:%d: %s: %s\n", file, line, what, strerror(error));
    _exit(99);
}

// For calls that return an error number.
#define must(call)                                    \
    do {                                              \
        int error_ = (call);                          \
        if (error_ != 0)                              \
            fail(__FILE__, __LINE__, #call, error_);  \
    } while (0)

// For calls that return -1 and set errno, and for plain conditions.
#define must_be(condition)                                \
    do {                                                  \
        if (!(condition))                                 \
            fail(__FILE__, __LINE__, #condition, errno);  \
    } while (0)

// The sleep is a raw system call so that it is no cancellation point.
static inline void pause_for(long nanoseconds)
{
    struct timespec span = {nanoseconds / 1000000000, nanoseconds % 1000000000};
    syscall(SYS_nanosleep, &span, NULL);
}

// Lets the clock decide how long this takes: what is not ordered by a primitive
// comes out differently from run to run, in recordings and replays alike.
static inline void jitter(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    unsigned dice = (unsigned)(now.tv_nsec * 2654435761u) >> 18;
    if (dice % 16 == 0)
        pause_for(1000 + dice % 30000);
    else if (dice % 16 < 4)
        sched_yield();
    for (volatile unsigned spin = dice % 400; spin > 0;) {
        unsigned left = spin;
        spin = left - 1;
    }
}

static inline struct timespec in_microseconds(clockid_t clock, long microseconds)
{
    struct timespec at;
    clock_gettime(clock, &at);
    // A deadline in the past borrows a second.
    long nanoseconds = at.tv_nsec + microseconds * 1000 + 1000000000;
    at.tv_sec += nanoseconds / 1000000000 - 1;
    at.tv_nsec = nanoseconds % 1000000000;
    return at;
}

static inline int number(int argc, char **argv, int index, int otherwise)
{
    return argc > index ? atoi(argv[index]) : otherwise;
}

static inline const char *word(int argc, char **argv, int index, const char *otherwise)
{
    return argc > index ? argv[index] : otherwise;
}

static inline int is(const char *one, const char *other)
{
    return strcmp(one, other) == 0;
}

// Creates that many threads, each given its index, and joins them in order.
static inline void crew(int threads, void *(*start)(void *))
{
    pthread_t ids[MOST_THREADS];
    for (int who = 0; who < threads; who++)
        must(pthread_create(&ids[who], NULL, start, (void *)(intptr_t)who));
    for (int who = 0; who < threads; who++)
        must(pthread_join(ids[who], NULL));
}

#endif
