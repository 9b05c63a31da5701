// The work of guests that are about something else: rounds of a mutex, each noted.
#ifndef ROUNDS_H
#define ROUNDS_H

#include "transcript.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;
static int rounds;

static void *worker(void *argument)
{
    for (int round = 0; round < rounds; round++) {
        must(pthread_mutex_lock(&mutex));
        note(&transcript, (intptr_t)argument);
        must(pthread_mutex_unlock(&mutex));
        jitter();
    }
    return NULL;
}

#endif
