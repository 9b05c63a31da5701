// Runs a random program: threads that take and leave locks, hand each other tokens, meet, create and join each other,
// and access bytes of one small area in lines of their own. Each logs what it did; where the order at a lock is needed,
// the log has the number of the turn, taken while the lock is held. From these logs a test computes which of the
// accesses race.
//
// A program is the scripts of its threads, with a slash between them; thread 0 is main. A script is words of a letter
// and a number:
//   a  access in that line                l u  lock, unlock mutex          y    let others run
//   p  post token, v  wait for it         r s  read-lock, read-unlock
//   g  give by condition, t  take it      w x  write-lock, write-unlock
//   c  create thread, d  detached         b    meet at barrier, after its number of members and a colon
//   o  access in that line, often, in a critical section each
//   j  join it, e  wait for its end
#include "twins.h"
#include <stdarg.h>

#define MOST 12
#define MUTEXES 4
#define RWLOCKS 2
#define TOKENS 64
#define BARRIERS 16
#define LOG 40000

// Conditions go with the mutex of that number.
#define GIVING 2
// What is done often is done under this one, which is taken last, and so many times.
#define GUARD 3
#define OFTEN 60

static _Alignas(64) volatile unsigned char area[128];
// Across the border of two lines of 64 bytes.
#define AT(offset) (&area[56 + (offset)])

static pthread_mutex_t mutexes[MUTEXES];
static pthread_rwlock_t rwlocks[RWLOCKS];
static pthread_cond_t given = PTHREAD_COND_INITIALIZER;
static sem_t tokens[TOKENS], ends[MOST];
static pthread_barrier_t barriers[BARRIERS];
// Written by who holds the lock of that number.
static int turns[MUTEXES], writers[RWLOCKS], flags[TOKENS];

struct thread {
    const char *script;
    pthread_t id;
    int detached;
    size_t logged;
    char log[LOG];
};

static struct thread threads[MOST];

static void __attribute__((format(printf, 2, 3))) note_(struct thread *self, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    size_t room = sizeof self->log - self->logged;
    int length = vsnprintf(self->log + self->logged, room, format, list);
    va_end(list);
    must_be(length > 0 && (size_t)length < room);
    self->logged += (size_t)length;
}

struct __attribute__((packed)) of_1 {
    volatile uint8_t it;
};
struct __attribute__((packed)) of_2 {
    volatile uint16_t it;
};
struct __attribute__((packed)) of_4 {
    volatile uint32_t it;
};
struct __attribute__((packed)) of_8 {
    volatile uint64_t it;
};

// Each access has a line of its own, by which scripts, logs and reports call it.
#define READ(size, offset) case __LINE__: (void)((struct of_##size *)AT(offset))->it; break;
#define WRITE(size, offset) case __LINE__: ((struct of_##size *)AT(offset))->it = size; break;

__attribute__((noinline)) static void access_in(int line)
{
    switch (line) {
        READ(1, 0)
        READ(1, 1)
        READ(1, 2)
        READ(1, 3)
        READ(1, 4)
        READ(1, 5)
        READ(1, 6)
        READ(1, 7)
        READ(1, 8)
        READ(1, 9)
        READ(1, 10)
        READ(1, 11)
        READ(1, 12)
        READ(1, 13)
        READ(1, 14)
        READ(1, 15)
        READ(2, 0)
        READ(2, 1)
        READ(2, 2)
        READ(2, 3)
        READ(2, 4)
        READ(2, 5)
        READ(2, 6)
        READ(2, 7)
        READ(2, 8)
        READ(2, 9)
        READ(2, 10)
        READ(2, 11)
        READ(2, 12)
        READ(2, 13)
        READ(2, 14)
        READ(4, 0)
        READ(4, 1)
        READ(4, 2)
        READ(4, 3)
        READ(4, 4)
        READ(4, 5)
        READ(4, 6)
        READ(4, 7)
        READ(4, 8)
        READ(4, 9)
        READ(4, 10)
        READ(4, 11)
        READ(4, 12)
        READ(8, 0)
        READ(8, 1)
        READ(8, 2)
        READ(8, 3)
        READ(8, 4)
        READ(8, 5)
        READ(8, 6)
        READ(8, 7)
        READ(8, 8)
        WRITE(1, 0)
        WRITE(1, 1)
        WRITE(1, 2)
        WRITE(1, 3)
        WRITE(1, 4)
        WRITE(1, 5)
        WRITE(1, 6)
        WRITE(1, 7)
        WRITE(1, 8)
        WRITE(1, 9)
        WRITE(1, 10)
        WRITE(1, 11)
        WRITE(1, 12)
        WRITE(1, 13)
        WRITE(1, 14)
        WRITE(1, 15)
        WRITE(2, 0)
        WRITE(2, 1)
        WRITE(2, 2)
        WRITE(2, 3)
        WRITE(2, 4)
        WRITE(2, 5)
        WRITE(2, 6)
        WRITE(2, 7)
        WRITE(2, 8)
        WRITE(2, 9)
        WRITE(2, 10)
        WRITE(2, 11)
        WRITE(2, 12)
        WRITE(2, 13)
        WRITE(2, 14)
        WRITE(4, 0)
        WRITE(4, 1)
        WRITE(4, 2)
        WRITE(4, 3)
        WRITE(4, 4)
        WRITE(4, 5)
        WRITE(4, 6)
        WRITE(4, 7)
        WRITE(4, 8)
        WRITE(4, 9)
        WRITE(4, 10)
        WRITE(4, 11)
        WRITE(4, 12)
        WRITE(8, 0)
        WRITE(8, 1)
        WRITE(8, 2)
        WRITE(8, 3)
        WRITE(8, 4)
        WRITE(8, 5)
        WRITE(8, 6)
        WRITE(8, 7)
        WRITE(8, 8)
    default:
        exit(97);
    }
}

static void lock(struct thread *self, int which)
{
    must(pthread_mutex_lock(&mutexes[which]));
    note_(self, "l%d.%d ", which, turns[which]++);
}

static void unlock(struct thread *self, int which)
{
    note_(self, "u%d ", which);
    must(pthread_mutex_unlock(&mutexes[which]));
}

static void access_often(struct thread *self, int line)
{
    for (int round = 0; round < OFTEN; round++) {
        lock(self, GUARD);
        access_in(line);
        note_(self, "a%d ", line);
        unlock(self, GUARD);
        sched_yield();
    }
}

static void give(struct thread *self, int which)
{
    lock(self, GIVING);
    flags[which] = 1;
    must(pthread_cond_broadcast(&given));
    unlock(self, GIVING);
}

static void take(struct thread *self, int which)
{
    lock(self, GIVING);
    while (!flags[which]) {
        note_(self, "u%d ", GIVING);
        must(pthread_cond_wait(&given, &mutexes[GIVING]));
        note_(self, "l%d.%d ", GIVING, turns[GIVING]++);
    }
    unlock(self, GIVING);
}

static void read_lock(struct thread *self, int which)
{
    must(pthread_rwlock_rdlock(&rwlocks[which]));
    note_(self, "r%d.%d ", which, writers[which]);
}

static void write_lock(struct thread *self, int which)
{
    must(pthread_rwlock_wrlock(&rwlocks[which]));
    note_(self, "w%d.%d ", which, writers[which]++);
}

static void meet(struct thread *self, int which)
{
    note_(self, "b%d ", which);
    int error = pthread_barrier_wait(&barriers[which]);
    must_be(error == 0 || error == PTHREAD_BARRIER_SERIAL_THREAD);
}

static void *run(void *argument);

static void create(struct thread *self, int which, int detached)
{
    note_(self, "c%d ", which);
    threads[which].detached = detached;
    must(pthread_create(&threads[which].id, NULL, run, &threads[which]));
    if (detached)
        must(pthread_detach(threads[which].id));
}

static void do_one(struct thread *self, char what, int which)
{
    switch (what) {
    case 'a': access_in(which); note_(self, "a%d ", which); break;
    case 'o': access_often(self, which); break;
    case 'l': lock(self, which); break;
    case 'u': unlock(self, which); break;
    case 'r': read_lock(self, which); break;
    case 'w': write_lock(self, which); break;
    case 's': case 'x': note_(self, "%c%d ", what, which); must(pthread_rwlock_unlock(&rwlocks[which])); break;
    case 'p': note_(self, "p%d ", which); post(&tokens[which]); break;
    case 'v': await(&tokens[which]); note_(self, "v%d ", which); break;
    case 'g': give(self, which); break;
    case 't': take(self, which); break;
    case 'b': meet(self, which); break;
    case 'c': create(self, which, 0); break;
    case 'd': create(self, which, 1); break;
    case 'j': must(pthread_join(threads[which].id, NULL)); note_(self, "j%d ", which); break;
    case 'e': await(&ends[which]); note_(self, "j%d ", which); break;
    case 'y': for (int round = 0; round < which; round++) sched_yield(); break;
    default: fail(__FILE__, __LINE__, "a word of the script", EINVAL);
    }
}

static void *run(void *argument)
{
    struct thread *self = argument;
    const char *at = self->script;
    while (*at != 0 && *at != '/') {
        char what = *at++, *end;
        int which = (int)strtol(at, &end, 10);
        // The number of members stands there for main.
        if (*end == ':')
            which = (int)strtol(end + 1, &end, 10);
        do_one(self, what, which);
        at = end;
    }
    if (self->detached)
        post(&ends[self - threads]);
    return NULL;
}

static void make_barriers(const char *scripts)
{
    int made[BARRIERS] = {0};
    for (const char *at = strchr(scripts, 'b'); at != NULL; at = strchr(at + 1, 'b')) {
        int members, which;
        must_be(sscanf(at, "b%d:%d", &members, &which) == 2 && which < BARRIERS);
        if (!made[which]++)
            must(pthread_barrier_init(&barriers[which], NULL, (unsigned)members));
    }
}

int main(int argc, char **argv)
{
    must_be(argc == 2);
    int count = 0;
    for (const char *at = argv[1]; at != NULL && count < MOST; count++) {
        threads[count].script = at;
        at = strchr(at, '/');
        at = at == NULL ? NULL : at + 1;
    }
    for (int which = 0; which < MUTEXES; which++)
        must(pthread_mutex_init(&mutexes[which], NULL));
    for (int which = 0; which < RWLOCKS; which++)
        must(pthread_rwlock_init(&rwlocks[which], NULL));
    for (int which = 0; which < TOKENS; which++)
        must_be(sem_init(&tokens[which], 0, 0) == 0);
    for (int which = 0; which < MOST; which++)
        must_be(sem_init(&ends[which], 0, 0) == 0);
    make_barriers(argv[1]);
    run(&threads[0]);
    for (int which = 0; which < count; which++)
        printf("%s\n", threads[which].log);
    return 0;
}
