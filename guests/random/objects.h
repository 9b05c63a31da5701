// The shared objects of a random program, and the logs that show the order of
// their effects.
//
// Apart from the interpreter because a fork child makes all of them anew, in the
// memory where the parent's other threads left them.
#ifndef OBJECTS_H
#define OBJECTS_H

#include "../transcript.h"
#include <semaphore.h>
#include <stdio_ext.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define MUTEXES 8
#define ROBUST 5
#define STATIC 6
#define CONDITIONS 3
#define PAIRS 2
#define ONCES 3
#define KEPT 400

// One effect: who did what with which result.
struct effect {
    char who[22];
    char what;
    int result;
};

// Written only while its object is held, or by one thread.
struct log {
    uint64_t hash;
    unsigned long count;
    struct effect kept[KEPT];
};

static inline void add(struct log *log, const char *who, char what, int result)
{
    for (const char *at = who; *at != 0; at++)
        log->hash = fold(log->hash, (unsigned char)*at);
    log->hash = fold(fold(log->hash, (unsigned char)what), (unsigned)result);
    if (log->count < KEPT) {
        struct effect *effect = &log->kept[log->count];
        size_t length = strlen(who);
        memcpy(effect->who, who, length < sizeof effect->who ? length : sizeof effect->who - 1);
        effect->what = what;
        effect->result = result;
    }
    log->count++;
}

static inline void print_log(FILE *out, const char *name, const struct log *log)
{
    if (log->count == 0)
        return;
    fprintf(out, "%s %lu %016llx:", name, log->count, (unsigned long long)log->hash);
    for (unsigned long at = 0; at < log->count && at < KEPT; at++)
        fprintf(out, " %s%c%d", log->kept[at].who, log->kept[at].what, log->kept[at].result);
    fprintf(out, "\n");
}

// Of each kind one mutex: normal, recursive, error-checking, adaptive, with
// priority inheritance, robust, statically initialised, fit for sharing.
static pthread_mutex_t mutexes[MUTEXES] = {[STATIC] = PTHREAD_MUTEX_INITIALIZER};
static struct log mutex_logs[MUTEXES];

// Condition c goes with mutex c. 0 gets one signal for each token, 1 gets
// broadcasts, 2 has no tokens: whoever waits for it does so for a time.
static pthread_cond_t conditions[CONDITIONS];
static int tokens[CONDITIONS];

static pthread_rwlock_t rwlocks[PAIRS];
static struct log rwlock_logs[PAIRS];
static pthread_spinlock_t spins[PAIRS];
static struct log spin_logs[PAIRS];
static sem_t private_semaphore;
static struct log semaphore_log;
static sem_t token_semaphore;
static pthread_once_t onces[ONCES];
static int once_values[ONCES];
static struct log once_logs[ONCES];
static uint64_t guards[ONCES];
static int guard_values[ONCES];
static struct log guard_logs[ONCES];

// Detached threads that have not come to their end.
static pthread_mutex_t latch_mutex;
static pthread_cond_t latch;
static int running;

// What all processes of the program share.
static struct common_ground {
    // The second one is robust.
    pthread_mutex_t mutexes[2];
    struct log mutex_logs[2];
    sem_t semaphore;
    struct log semaphore_log;
} *ground;

static void make_mutex(int which)
{
    static const int types[MUTEXES] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK,
                                       PTHREAD_MUTEX_ADAPTIVE_NP};
    pthread_mutexattr_t how;
    must(pthread_mutexattr_init(&how));
    must(pthread_mutexattr_settype(&how, types[which]));
    if (which == 4)
        must(pthread_mutexattr_setprotocol(&how, PTHREAD_PRIO_INHERIT));
    if (which == ROBUST)
        must(pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST));
    if (which == 7)
        must(pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED));
    must(pthread_mutex_init(&mutexes[which], &how));
    must(pthread_mutexattr_destroy(&how));
}

static void make_ground(void)
{
    ground = mmap(NULL, sizeof *ground, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must_be(ground != MAP_FAILED);
    pthread_mutexattr_t how;
    must(pthread_mutexattr_init(&how));
    must(pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED));
    must(pthread_mutex_init(&ground->mutexes[0], &how));
    must(pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST));
    must(pthread_mutex_init(&ground->mutexes[1], &how));
    must_be(sem_init(&ground->semaphore, 1, 1) == 0);
}

static void make_objects(void)
{
    pthread_condattr_t monotonic;
    must(pthread_condattr_init(&monotonic));
    must(pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC));
    for (int which = 0; which < MUTEXES; which++)
        if (which != STATIC)
            make_mutex(which);
    for (int which = 0; which < CONDITIONS; which++) {
        must(pthread_cond_init(&conditions[which], which == 1 ? &monotonic : NULL));
        tokens[which] = 0;
    }
    for (int which = 0; which < PAIRS; which++) {
        must(pthread_rwlock_init(&rwlocks[which], NULL));
        must(pthread_spin_init(&spins[which], PTHREAD_PROCESS_PRIVATE));
    }
    must_be(sem_init(&private_semaphore, 0, 1) == 0);
    must_be(sem_init(&token_semaphore, 0, 0) == 0);
    for (int which = 0; which < ONCES; which++) {
        onces[which] = (pthread_once_t)PTHREAD_ONCE_INIT;
        once_values[which] = 0;
        guards[which] = 0;
        guard_values[which] = 0;
    }
    must(pthread_mutex_init(&latch_mutex, NULL));
    must(pthread_cond_init(&latch, NULL));
    running = 0;
}

// In a fork child: nobody else is here, whoever held something in the parent.
static void make_objects_again(void)
{
    memset(mutexes, 0, sizeof mutexes);
    mutexes[STATIC] = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    memset(mutex_logs, 0, sizeof mutex_logs);
    memset(rwlock_logs, 0, sizeof rwlock_logs);
    memset(spin_logs, 0, sizeof spin_logs);
    memset(once_logs, 0, sizeof once_logs);
    memset(guard_logs, 0, sizeof guard_logs);
    memset(&semaphore_log, 0, sizeof semaphore_log);
    make_objects();
}

// Takes each object to read its log: detached threads may still be in their last destructors, and where a thread
// ends the process all others may be anywhere.
static void print_objects(FILE *out)
{
    char name[16];
    for (int which = 0; which < MUTEXES; which++) {
        int error = pthread_mutex_lock(&mutexes[which]);
        if (error == EOWNERDEAD)
            must(pthread_mutex_consistent(&mutexes[which]));
        snprintf(name, sizeof name, "mutex %d", which);
        print_log(out, name, &mutex_logs[which]);
        must(pthread_mutex_unlock(&mutexes[which]));
    }
    for (int which = 0; which < PAIRS; which++) {
        snprintf(name, sizeof name, "rwlock %d", which);
        must(pthread_rwlock_rdlock(&rwlocks[which]));
        print_log(out, name, &rwlock_logs[which]);
        must(pthread_rwlock_unlock(&rwlocks[which]));
        snprintf(name, sizeof name, "spin %d", which);
        must(pthread_spin_lock(&spins[which]));
        print_log(out, name, &spin_logs[which]);
        must(pthread_spin_unlock(&spins[which]));
    }
    must_be(sem_wait(&private_semaphore) == 0);
    print_log(out, "semaphore", &semaphore_log);
    must_be(sem_post(&private_semaphore) == 0);
}

// For the end, where nobody runs them any more.
static void print_logs_of_once(FILE *out)
{
    char name[16];
    for (int which = 0; which < ONCES; which++) {
        snprintf(name, sizeof name, "once %d", which);
        print_log(out, name, &once_logs[which]);
        snprintf(name, sizeof name, "guard %d", which);
        print_log(out, name, &guard_logs[which]);
    }
}

static void print_ground(FILE *out)
{
    print_log(out, "shared mutex", &ground->mutex_logs[0]);
    print_log(out, "shared robust mutex", &ground->mutex_logs[1]);
    print_log(out, "shared semaphore", &ground->semaphore_log);
}

#endif
