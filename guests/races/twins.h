// What the programs for the race detector share: two threads that do one thing
// each, chosen by the first argument.
//
// These programs race on purpose. A line whose access races ends in a comment
// `race TAG`; which of them race in which case stands in expected.toml, next to
// the ordered twin of the case, which has no pair at all. So that each run has the
// same pairs, however its threads were scheduled:
//
// - a racing location is accessed in one place by each of the two threads, and
//   else only where the other one has not been created or was joined;
// - no recorded event depends on a value that races;
// - where an edge in one direction would hide the race in the other, a semaphore
//   behind or before the access (never between the two) makes the direction fixed.
#ifndef TWINS_H
#define TWINS_H

#include "../transcript.h"
#include <semaphore.h>

typedef void *(*work)(void *);

struct twins {
    const char *name;
    work one, other;
};

static inline void *idle(void *argument)
{
    return argument;
}

static inline pthread_t started(work how)
{
    pthread_t thread;
    must(pthread_create(&thread, NULL, how, NULL));
    return thread;
}

static inline void ended(pthread_t thread)
{
    must(pthread_join(thread, NULL));
}

// A second thread runs `other` while the first one runs `one`, neither of them main's.
static inline void side_by_side(work one, work other, void *argument)
{
    pthread_t first, second;
    must(pthread_create(&first, NULL, one, argument));
    must(pthread_create(&second, NULL, other, argument));
    must(pthread_join(first, NULL));
    must(pthread_join(second, NULL));
}

static inline const struct twins *chosen(const struct twins *all, size_t count, const char *name)
{
    for (size_t at = 0; at < count; at++)
        if (is(all[at].name, name))
            return &all[at];
    fprintf(stderr, "no case is called %s\n", name);
    exit(98);
}

// The whole of a main that does nothing else.
#define run_chosen(all)                                                                              \
    do {                                                                                             \
        const struct twins *it_ = chosen(all, sizeof(all) / sizeof *(all), word(argc, argv, 1, "")); \
        side_by_side(it_->one, it_->other, NULL);                                                    \
        printf("%s\n", it_->name);                                                                   \
    } while (0)

static inline void post(sem_t *semaphore)
{
    must_be(sem_post(semaphore) == 0);
}

static inline void await(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0)
        must_be(errno == EINTR);
}

#endif
