// Runs a program made of synchronisation, given as text, and prints the order of
// every object's effects.
//
// An operation is a letter, a number (which object), perhaps a comma and another
// number (microseconds; an odd one picks the call that names its clock), perhaps
// a body in braces that runs while the object is held:
//
//   L l t   mutex: lock, trylock, timedlock    W w V   write lock: wait, try, timed
//   h       mutex of the group, on the heap    R r U   read lock: wait, try, timed
//   Z Y     mutexes of all processes, the       S s z   semaphore: wait, try, timed
//           second robust: lock, try
//   P p     spin lock: lock, try               f       the output stream
//   I       the body that many times
//
//   C       waits for a token of a condition   D E     gives one, notifies inside, outside
//   k       waits once, for a time             N n     signal, broadcast without the mutex
//   g G     waits for, posts a semaphore token v       reads a semaphore's value
//   O H     once, guard of a static             K       sets a key whose destructor locks
//   q o     rand, printf                       x y     sleeps, spins
//   m       unlocks a mutex that it doesn't hold
//
//   T d     a thread, joined or detached       J j     joins the oldest thread, tries to
//   B{}{};  a group of threads, joined         b a     their barrier, one of their own making
//   X A     a process, forked or spawned       e       ends thread or process with a robust mutex held
//   c       a thread, cancelled after the body !       ends the process
//
// A program never deadlocks if it keeps two rules. It waits for an object only
// while all that it holds ranks lower: mutexes in their order, h, Z, rwlocks,
// semaphores, spin locks, stream. And those that wait for threads, processes or
// tokens come only where nothing is held. Tokens suffice: whoever creates a thread gives at once as many as that
// thread will take. No data races: a log is written by who holds its object, the
// log of a thread by that thread.
#include "text.h"
#include <spawn.h>
#include <threads.h>

#define MOST_CHILDREN 64
#define MOST_MEMBERS 8
#define PATH_BYTES 40

struct thread {
    char path[PATH_BYTES];
    const char *body;
    pthread_t id;
    // How it was made, and whether nobody will join it.
    int variant, detached, joined;
    struct group *group;
    int place;
    struct log log;
    int children, processes;
    struct thread *child[MOST_CHILDREN];
};

// Lives on the heap while its members do: the next group finds its memory used.
struct group {
    pthread_barrier_t barrier;
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    int members, arrived;
    uint64_t slots[MOST_MEMBERS];
    struct log log;
};

static __thread struct thread *self;
static FILE *out;
static pthread_key_t keys[PAIRS];
static pthread_mutex_t quitting = PTHREAD_MUTEX_INITIALIZER;
static int dies_holding;
static char *image;

static const char *run(const char *at);
static void run_whole(const char *body);

static void mine(char what, int result)
{
    add(&self->log, self->path, what, result);
}

// ---- conditions and tokens

static void notify(int which)
{
    must(which == 0 ? pthread_cond_signal(&conditions[which]) : pthread_cond_broadcast(&conditions[which]));
}

static void give(int which, int inside, char what)
{
    must(pthread_mutex_lock(&mutexes[which]));
    tokens[which]++;
    add(&mutex_logs[which], self->path, what, tokens[which]);
    if (inside)
        notify(which);
    must(pthread_mutex_unlock(&mutexes[which]));
    if (!inside)
        notify(which);
}

static void take(int which)
{
    must(pthread_mutex_lock(&mutexes[which]));
    while (tokens[which] == 0)
        must(pthread_cond_wait(&conditions[which], &mutexes[which]));
    tokens[which]--;
    add(&mutex_logs[which], self->path, 'C', tokens[which]);
    must(pthread_mutex_unlock(&mutexes[which]));
}

static void wait_once(int which, int micros)
{
    clockid_t clock = which == 1 || micros % 2 == 1 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    must(pthread_mutex_lock(&mutexes[which]));
    add(&mutex_logs[which], self->path, 'i', 0);
    struct timespec end = in_microseconds(clock, micros);
    int error = micros % 2 == 1
        ? pthread_cond_clockwait(&conditions[which], &mutexes[which], clock, &end)
        : pthread_cond_timedwait(&conditions[which], &mutexes[which], &end);
    add(&mutex_logs[which], self->path, 'k', error);
    must(pthread_mutex_unlock(&mutexes[which]));
}

static void feed(const char *body)
{
    int needs[CONDITIONS] = {0};
    count_needs(body, 1, needs);
    for (; needs[0] > 0; needs[0]--)
        give(0, needs[0] % 2, 'D');
    for (; needs[1] > 0; needs[1]--)
        give(1, needs[1] % 2, 'D');
    for (; needs[2] > 0; needs[2]--)
        must_be(sem_post(&token_semaphore) == 0);
}

// ---- objects that are held

static int clocked(int micros, int (*real)(void *, const struct timespec *),
                   int (*named)(void *, clockid_t, const struct timespec *), void *object)
{
    clockid_t clock = micros % 2 == 1 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    struct timespec end = in_microseconds(clock, micros);
    return micros % 2 == 1 ? named(object, clock, &end) : real(object, &end);
}

#define TIMED(object, real, named)                                                   \
    clocked(it->micros, (int (*)(void *, const struct timespec *))real,              \
            (int (*)(void *, clockid_t, const struct timespec *))named, object)

static int outcome(int result)
{
    return result == 0 ? 0 : errno;
}

static sem_t *semaphore(int which)
{
    return which == 0 ? &private_semaphore : &ground->semaphore;
}

static int acquire(const struct operation *it)
{
    pthread_mutex_t *mutex = &mutexes[it->which % MUTEXES];
    pthread_rwlock_t *rwlock = &rwlocks[it->which % PAIRS];
    switch (it->what) {
    case 'L': return pthread_mutex_lock(mutex);
    case 'l': return pthread_mutex_trylock(mutex);
    case 't': return TIMED(mutex, pthread_mutex_timedlock, pthread_mutex_clocklock);
    case 'h': return pthread_mutex_lock(&self->group->mutex);
    case 'Z': return pthread_mutex_lock(&ground->mutexes[it->which]);
    case 'Y': return pthread_mutex_trylock(&ground->mutexes[it->which]);
    case 'R': return pthread_rwlock_rdlock(rwlock);
    case 'r': return pthread_rwlock_tryrdlock(rwlock);
    case 'U': return TIMED(rwlock, pthread_rwlock_timedrdlock, pthread_rwlock_clockrdlock);
    case 'W': return pthread_rwlock_wrlock(rwlock);
    case 'w': return pthread_rwlock_trywrlock(rwlock);
    case 'V': return TIMED(rwlock, pthread_rwlock_timedwrlock, pthread_rwlock_clockwrlock);
    case 'S': return outcome(sem_wait(semaphore(it->which)));
    case 's': return outcome(sem_trywait(semaphore(it->which)));
    case 'z': return outcome(TIMED(semaphore(it->which), sem_timedwait, sem_clockwait));
    case 'P': return pthread_spin_lock(&spins[it->which]);
    case 'p': return pthread_spin_trylock(&spins[it->which]);
    default: flockfile(out); return 0;
    }
}

// The log that the holder may write; NULL if holding it excludes nobody.
static struct log *log_of(const struct operation *it)
{
    switch (it->what) {
    case 'L': case 'l': case 't': return &mutex_logs[it->which];
    case 'h': return &self->group->log;
    case 'Z': case 'Y': return &ground->mutex_logs[it->which];
    case 'W': case 'w': case 'V': return &rwlock_logs[it->which];
    case 'S': case 's': case 'z': return it->which == 0 ? &semaphore_log : &ground->semaphore_log;
    case 'P': case 'p': return &spin_logs[it->which];
    default: return NULL;
    }
}

static void release(const struct operation *it)
{
    switch (it->what) {
    case 'L': case 'l': case 't': must(pthread_mutex_unlock(&mutexes[it->which])); return;
    case 'h': must(pthread_mutex_unlock(&self->group->mutex)); return;
    case 'Z': case 'Y': must(pthread_mutex_unlock(&ground->mutexes[it->which])); return;
    case 'S': case 's': case 'z': must_be(sem_post(semaphore(it->which)) == 0); return;
    case 'P': case 'p': must(pthread_spin_unlock(&spins[it->which])); return;
    case 'f': funlockfile(out); return;
    default: must(pthread_rwlock_unlock(&rwlocks[it->which])); return;
    }
}

static void hold(const struct operation *it)
{
    int error = acquire(it);
    if (error == EOWNERDEAD)
        must(pthread_mutex_consistent(it->what == 'Z' || it->what == 'Y' ? &ground->mutexes[1] : &mutexes[ROBUST]));
    else if (error != 0) {
        mine(it->what, error);
        return;
    }
    struct log *log = log_of(it);
    if (log != NULL)
        add(log, self->path, it->what, error);
    else if (it->what != 'f')
        mine(it->what, (int)(rwlock_logs[it->which].hash & 0xffff));
    run(it->body);
    release(it);
}

// ---- once and keys

static void run_once(int which)
{
    must(pthread_spin_lock(&spins[0]));
    add(&spin_logs[0], self->path, 'O', which);
    must(pthread_spin_unlock(&spins[0]));
    jitter();
    add(&once_logs[which], self->path, 'O', which);
    once_values[which] = (int)(self->log.hash & 0xffff);
}

static void once_0(void) { run_once(0); }
static void once_1(void) { run_once(1); }
static void once_2(void) { run_once(2); }

static void once(int which)
{
    void (*const routines[ONCES])(void) = {once_0, once_1, once_2};
    must(pthread_once(&onces[which], routines[which]));
    mine('O', once_values[which]);
}

int __cxa_guard_acquire(uint64_t *guard);
void __cxa_guard_release(uint64_t *guard);
void __cxa_guard_abort(uint64_t *guard);

// As a compiler writes it for a static of a function, the fast path included. Guard 1 fails at first.
static void static_of_function(int which)
{
    if (__atomic_load_n((unsigned char *)&guards[which], __ATOMIC_ACQUIRE) == 0 && __cxa_guard_acquire(&guards[which])) {
        must(pthread_spin_lock(&spins[0]));
        add(&spin_logs[0], self->path, 'H', which);
        must(pthread_spin_unlock(&spins[0]));
        add(&guard_logs[which], self->path, 'H', which);
        jitter();
        if (which == 1 && guard_logs[which].count < 2) {
            __cxa_guard_abort(&guards[which]);
            return;
        }
        guard_values[which] = (int)(self->log.hash & 0xffff);
        __cxa_guard_release(&guards[which]);
    }
    mine('H', guard_values[which]);
}

// The first round of destructors sets the key again, so that there is a second.
static void destroy(int which, struct thread *thread)
{
    must(pthread_mutex_lock(&mutexes[STATIC + which]));
    add(&mutex_logs[STATIC + which], thread->path, 'K', self == NULL);
    must(pthread_mutex_unlock(&mutexes[STATIC + which]));
    if (self != NULL)
        must(pthread_setspecific(keys[which], thread));
    if (which == 1 || pthread_getspecific(keys[1]) == NULL)
        self = NULL;
}

static void destroy_0(void *thread) { destroy(0, thread); }
static void destroy_1(void *thread) { destroy(1, thread); }

// ---- threads

static struct thread *new_thread(const char *body)
{
    struct thread *thread = calloc(1, sizeof *thread);
    must_be(thread != NULL && self->children < MOST_CHILDREN);
    snprintf(thread->path, sizeof thread->path, "%.20s.%d", self->path, self->children);
    thread->body = body;
    self->child[self->children++] = thread;
    return thread;
}

static void *start(void *argument)
{
    self = argument;
    if (self->detached && self->variant == 2)
        must(pthread_detach(pthread_self()));
    run_whole(self->body);
    if (self->detached) {
        must(pthread_mutex_lock(&latch_mutex));
        running--;
        must(pthread_cond_signal(&latch));
        must(pthread_mutex_unlock(&latch_mutex));
    }
    return self;
}

static int start_c11(void *argument)
{
    start(argument);
    return 7;
}

static void create(struct thread *thread)
{
    pthread_attr_t how;
    int detached = thread->detached && thread->variant == 0;
    must(pthread_attr_init(&how));
    must(pthread_attr_setdetachstate(&how, detached ? PTHREAD_CREATE_DETACHED : PTHREAD_CREATE_JOINABLE));
    if (thread->detached) {
        must(pthread_mutex_lock(&latch_mutex));
        running++;
        must(pthread_mutex_unlock(&latch_mutex));
    }
    // The thread may be gone at once: only its creator writes here what it reads later.
    if (!thread->detached && thread->variant == 1)
        must_be(thrd_create(&thread->id, start_c11, thread) == thrd_success);
    else
        must(pthread_create(&thread->id, &how, start, thread));
    if (thread->detached && thread->variant == 1)
        must(pthread_detach(thread->id));
    must(pthread_attr_destroy(&how));
    feed(thread->body);
}

static struct thread *oldest(void)
{
    for (int which = 0; which < self->children; which++)
        if (!self->child[which]->joined && !self->child[which]->detached)
            return self->child[which];
    return NULL;
}

static void join(struct thread *thread)
{
    if (thread->variant == 1) {
        int result;
        must_be(thrd_join(thread->id, &result) == thrd_success && result == 7);
    } else {
        void *result;
        must(pthread_join(thread->id, &result));
        must_be(result == thread);
    }
    thread->joined = 1;
    mine('J', (int)(thread->log.hash & 0xffff));
}

static void try_join(struct thread *thread, int micros)
{
    struct timespec end = in_microseconds(CLOCK_REALTIME, micros);
    int error = micros % 2 == 1 ? pthread_tryjoin_np(thread->id, NULL) : pthread_timedjoin_np(thread->id, NULL, &end);
    mine('j', error);
    thread->joined = error == 0;
}

static void give_back(void *round)
{
    add(&mutex_logs[2], self->path, 'u', *(int *)round);
    must(pthread_mutex_unlock(&mutexes[2]));
}

// Three sorts of cancellation points: with a mutex to be taken again, without, and one that does nothing else.
static void *be_cancelled(void *argument)
{
    self = argument;
    for (int round = 0; round < self->variant; round++) {
        jitter();
        struct timespec end = in_microseconds(CLOCK_REALTIME, 60);
        must(pthread_mutex_lock(&mutexes[2]));
        pthread_cleanup_push(give_back, &round);
        int error = pthread_cond_timedwait(&conditions[2], &mutexes[2], &end);
        add(&mutex_logs[2], self->path, 'k', error);
        pthread_cleanup_pop(1);
        mine('z', outcome(sem_timedwait(&private_semaphore, &end)));
        if (self->log.kept[self->log.count - 1].result == 0)
            must_be(sem_post(&private_semaphore) == 0);
        pthread_testcancel();
        mine('c', round);
    }
    return self;
}

static void cancel_one(const struct operation *it)
{
    void *result;
    struct thread *thread = new_thread("");
    thread->variant = it->which;
    thread->joined = 1;
    must(pthread_create(&thread->id, NULL, be_cancelled, thread));
    run(it->body);
    must(pthread_cancel(thread->id));
    must(pthread_join(thread->id, &result));
    mine('c', result == PTHREAD_CANCELED);
}

static const char *run_group(const char *at)
{
    struct group *group = calloc(1, sizeof *group);
    struct thread *threads[MOST_MEMBERS];
    must_be(group != NULL);
    for (; *at == '{' && group->members < MOST_MEMBERS; at = skip(at + 1)) {
        struct thread *thread = threads[group->members] = new_thread(at + 1);
        thread->group = group;
        thread->place = group->members++;
    }
    must(pthread_barrier_init(&group->barrier, NULL, group->members));
    must(pthread_mutex_init(&group->mutex, NULL));
    must(pthread_cond_init(&group->condition, NULL));
    for (int which = 0; which < group->members; which++)
        create(threads[which]);
    for (int which = 0; which < group->members; which++)
        join(threads[which]);
    for (unsigned long which = 0; which < group->log.count && which < KEPT; which++)
        add(&self->log, group->log.kept[which].who, 'h', group->log.kept[which].result);
    must(pthread_barrier_destroy(&group->barrier));
    must(pthread_mutex_destroy(&group->mutex));
    must(pthread_cond_destroy(&group->condition));
    free(group);
    return at;
}

static int pass_barrier(void)
{
    int result = pthread_barrier_wait(&self->group->barrier);
    must_be(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
    return result;
}

// What every member wrote before is there after; nobody writes again before all have read.
static void meet(void)
{
    struct group *group = self->group;
    group->slots[self->place] = self->log.hash;
    int first = pass_barrier();
    uint64_t all = 0;
    for (int which = 0; which < group->members; which++)
        all = fold(all, group->slots[which]);
    mine('b', first);
    mine('b', (int)(all & 0xffff));
    mine('b', pass_barrier());
}

// Waits once, without a loop: a wake-up that nobody sent would be seen.
static void meet_by_hand(void)
{
    struct group *group = self->group;
    must(pthread_mutex_lock(&group->mutex));
    add(&group->log, self->path, 'a', group->arrived);
    if (++group->arrived == group->members) {
        group->arrived = 0;
        must(pthread_cond_broadcast(&group->condition));
    } else {
        must(pthread_cond_wait(&group->condition, &group->mutex));
    }
    add(&group->log, self->path, 'a', group->arrived);
    must(pthread_mutex_unlock(&group->mutex));
}

// ---- processes

static void print_thread(const struct thread *thread)
{
    print_log(out, thread->path, &thread->log);
    for (int which = 0; which < thread->children; which++)
        print_thread(thread->child[which]);
}

// Behind this every thread has printed and logged what it ever will, but for destructors of detached ones.
static void finish(void)
{
    must(pthread_mutex_lock(&latch_mutex));
    while (running > 0)
        must(pthread_cond_wait(&latch, &latch_mutex));
    must(pthread_mutex_unlock(&latch_mutex));
    print_thread(self);
    print_objects(out);
    print_logs_of_once(out);
}

// What a parent and its child share beside the common ground: new memory for each child.
struct meeting {
    pthread_barrier_t barrier;
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    int tokens;
    char report[1 << 20];
};

static struct meeting *make_meeting(void)
{
    struct meeting *meeting = mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must_be(meeting != MAP_FAILED);
    pthread_barrierattr_t of_barrier;
    pthread_mutexattr_t of_mutex;
    pthread_condattr_t of_condition;
    must(pthread_barrierattr_init(&of_barrier));
    must(pthread_barrierattr_setpshared(&of_barrier, PTHREAD_PROCESS_SHARED));
    must(pthread_barrier_init(&meeting->barrier, &of_barrier, 2));
    must(pthread_mutexattr_init(&of_mutex));
    must(pthread_mutexattr_setpshared(&of_mutex, PTHREAD_PROCESS_SHARED));
    must(pthread_mutex_init(&meeting->mutex, &of_mutex));
    must(pthread_condattr_init(&of_condition));
    must(pthread_condattr_setpshared(&of_condition, PTHREAD_PROCESS_SHARED));
    must(pthread_cond_init(&meeting->condition, &of_condition));
    return meeting;
}

static void meet_child(struct meeting *meeting)
{
    mine('M', pthread_barrier_wait(&meeting->barrier));
    must(pthread_mutex_lock(&meeting->mutex));
    int waits = 0;
    for (; meeting->tokens == 0; waits++)
        must(pthread_cond_wait(&meeting->condition, &meeting->mutex));
    mine('M', waits);
    must(pthread_mutex_unlock(&meeting->mutex));
}

static void meet_parent(struct meeting *meeting)
{
    mine('M', pthread_barrier_wait(&meeting->barrier));
    must(pthread_mutex_lock(&meeting->mutex));
    meeting->tokens++;
    must(pthread_cond_signal(&meeting->condition));
    must(pthread_mutex_unlock(&meeting->mutex));
}

static void end_child(int exits)
{
    must_be(fclose(out) == 0);
    out = stdout;
    int status = (int)(self->log.hash % 5);
    if (dies_holding) {
        if (pthread_mutex_lock(&ground->mutexes[1]) == EOWNERDEAD)
            must(pthread_mutex_consistent(&ground->mutexes[1]));
        add(&ground->mutex_logs[1], self->path, 'e', status);
    }
    if (exits)
        exit(status);
    _exit(status);
}

static void run_child(const struct operation *it, struct meeting *meeting)
{
    // The parent's other threads may have left half a line in these.
    __fpurge(stdout);
    __fpurge(out);
    struct thread *thread = calloc(1, sizeof *thread);
    must_be(thread != NULL);
    snprintf(thread->path, sizeof thread->path, "%.20s!%d", self->path, self->processes);
    self = thread;
    out = fmemopen(meeting->report, sizeof meeting->report, "w");
    must_be(out != NULL);
    make_objects_again();
    dies_holding = 0;
    meet_parent(meeting);
    feed(it->body);
    run_whole(it->body);
    finish();
    end_child(it->which);
}

static void fork_one(const struct operation *it)
{
    struct meeting *meeting = make_meeting();
    pid_t child = fork();
    must_be(child >= 0);
    if (child == 0)
        run_child(it, meeting);
    meet_child(meeting);
    int status;
    must_be(waitpid(child, &status, 0) == child);
    mine('X', status);
    char *rest = meeting->report;
    for (char *line = strtok_r(rest, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        fprintf(out, "%s!%d| %s\n", self->path, self->processes, line);
    self->processes++;
    must_be(munmap(meeting, sizeof *meeting) == 0);
}

// Another image of this program runs the body. The stream is held so that their lines don't mix.
static void spawn(const struct operation *it)
{
    char *text = strndup(it->body, (size_t)(skip(it->body) - 1 - it->body));
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%.20s?%d", self->path, self->processes++);
    char *arguments[] = {image, text, path, NULL};
    pid_t child;
    int status;
    flockfile(out);
    must_be(fflush(out) == 0);
    must(posix_spawn(&child, image, NULL, NULL, arguments, environ));
    must_be(waitpid(child, &status, 0) == child);
    funlockfile(out);
    free(text);
    mine('A', status);
}

// Others go on until they are gone.
static void quit(void)
{
    must(pthread_mutex_lock(&quitting));
    print_log(out, "quits", &self->log);
    print_objects(out);
    // libc's last flush takes no lock: whether it finds what others print meanwhile is a race inside libc.
    flockfile(out);
    exit((int)(self->log.hash % 3));
}

// ---- running

static void end_with_robust_mutex(int of_process)
{
    if (of_process) {
        dies_holding = 1;
        return;
    }
    while (oldest() != NULL)
        join(oldest());
    struct operation lock = {.what = 'L', .which = ROBUST};
    int error = acquire(&lock);
    if (error == EOWNERDEAD)
        must(pthread_mutex_consistent(&mutexes[ROBUST]));
    add(&mutex_logs[ROBUST], self->path, 'e', error);
}

static void spin(int rounds)
{
    for (volatile int left = rounds; left > 0;) {
        int next = left - 1;
        left = next;
    }
}

static void simple(const struct operation *it)
{
    int value;
    switch (it->what) {
    case 'C': take(it->which); break;
    case 'D': give(it->which, 1, 'D'); break;
    case 'E': give(it->which, 0, 'E'); break;
    case 'k': wait_once(it->which, it->micros); break;
    case 'N': must(pthread_cond_signal(&conditions[it->which])); break;
    case 'n': must(pthread_cond_broadcast(&conditions[it->which])); break;
    case 'g': must_be(sem_wait(&token_semaphore) == 0); break;
    case 'G': must_be(sem_post(&token_semaphore) == 0); break;
    case 'v': must_be(sem_getvalue(semaphore(it->which), &value) == 0); mine('v', value); break;
    case 'O': once(it->which); break;
    case 'H': static_of_function(it->which); break;
    case 'K': must(pthread_setspecific(keys[it->which], self)); break;
    case 'q': mine('q', rand() & 0xffff); break;
    case 'o': fprintf(out, "%s says %lu\n", self->path, self->log.count); break;
    case 'x': pause_for(it->micros * 1000L); break;
    case 'y': spin(it->which * 100); break;
    case 'm': mine('m', pthread_mutex_unlock(&mutexes[it->which])); break;
    case 'J': if (oldest() != NULL) join(oldest()); break;
    case 'j': if (oldest() != NULL) try_join(oldest(), it->micros); break;
    case 'b': meet(); break;
    case 'a': meet_by_hand(); break;
    case 'e': end_with_robust_mutex(it->which); break;
    case '!': quit(); break;
    default: fail(__FILE__, __LINE__, &it->what, EINVAL);
    }
}

static void with_body(const struct operation *it)
{
    struct thread *thread;
    switch (it->what) {
    case 'I':
        for (int round = 0; round < it->which; round++)
            run(it->body);
        break;
    case 'T': case 'd':
        thread = new_thread(it->body);
        thread->detached = it->what == 'd';
        thread->variant = it->which;
        create(thread);
        break;
    case 'X': fork_one(it); break;
    case 'A': spawn(it); break;
    case 'c': cancel_one(it); break;
    default: hold(it); break;
    }
}

// Runs to the brace that closes the body, or to the end.
static const char *run(const char *at)
{
    while (*at != 0 && *at != '}') {
        jitter();
        struct operation it = read_operation(&at);
        if (it.what == 'B') {
            at = run_group(it.body - 1) + 1;
        } else if (it.body != NULL) {
            with_body(&it);
            at = skip(it.body);
        } else {
            simple(&it);
        }
    }
    return at;
}

static void run_whole(const char *body)
{
    run(body);
    while (oldest() != NULL)
        join(oldest());
}

int main(int argc, char **argv)
{
    struct thread *thread = calloc(1, sizeof *thread);
    must_be(thread != NULL && argc >= 2);
    image = argv[0];
    snprintf(thread->path, sizeof thread->path, "%.20s", argc > 2 ? argv[2] : "0");
    self = thread;
    out = stdout;
    make_ground();
    make_objects();
    must(pthread_key_create(&keys[0], destroy_0));
    must(pthread_key_create(&keys[1], destroy_1));
    feed(argv[1]);
    run_whole(argv[1]);
    finish();
    print_ground(out);
    return (int)(thread->log.hash % 3);
}
