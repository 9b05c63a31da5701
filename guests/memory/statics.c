// Statically initialised objects of every kind that has an initialiser, and one
// that is all zero bytes in .bss, used at once by threads without any init call.
#include "../transcript.h"

static pthread_mutex_t zero;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t checked = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_mutex_t adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_rwlock_t writers = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int rounds;
static int arrived;
static struct transcript transcripts[8];

static void first(void)
{
    must(pthread_mutex_lock(&zero));
    note(&transcripts[0], 7);
    must(pthread_mutex_unlock(&zero));
}

static void in_mutex(pthread_mutex_t *object, int index, int who)
{
    must(pthread_mutex_lock(object));
    note(&transcripts[index], who);
    must(pthread_mutex_unlock(object));
}

static void in_rwlock(pthread_rwlock_t *object, int index, int who)
{
    must(pthread_rwlock_wrlock(object));
    note(&transcripts[index], who);
    must(pthread_rwlock_unlock(object));
}

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        must(pthread_once(&once, first));
        in_mutex(&zero, 0, who);
        in_mutex(&mutex, 1, who);
        in_mutex(&recursive, 2, who);
        in_mutex(&checked, 3, who);
        in_mutex(&adaptive, 4, who);
        in_rwlock(&rwlock, 5, who);
        in_rwlock(&writers, 6, who);
        jitter();
    }
    must(pthread_mutex_lock(&mutex));
    note(&transcripts[7], who);
    if (++arrived % 2)
        must(pthread_cond_wait(&condition, &mutex));
    else
        must(pthread_cond_signal(&condition));
    note(&transcripts[7], who);
    must(pthread_mutex_unlock(&mutex));
    return NULL;
}

// THREADS (even) ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4) & ~1;
    rounds = number(argc, argv, 2, 50);
    crew(threads, worker);
    for (int index = 0; index < 8; index++)
        show("order", &transcripts[index]);
    return 0;
}
