// Locks that follow another thread's event, but one that is so old that no clock
// jumps: a recording has to tell of each whether it does. One thread is far ahead
// by locks of its own, and takes mutexes which others left long ago: one that was
// unlocked, one that somebody else unlocked for its owner, one that was waited with.
// Which it takes, and how often, is the same in every run.
#include "../transcript.h"

#include <semaphore.h>

enum { PLAIN, HANDED_ON, WAITED_WITH, MUTEXES };

static pthread_mutex_t mutexes[MUTEXES], own[2];
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t here, there;
static int told, ahead;
static struct transcript transcript;

static void take(pthread_mutex_t *mutex)
{
    must(pthread_mutex_lock(mutex));
    note(&transcript, (uint64_t)(mutex - mutexes));
    must(pthread_mutex_unlock(mutex));
}

static void hurry(pthread_mutex_t *mutex)
{
    for (int i = 0; i < ahead; i++) {
        must(pthread_mutex_lock(mutex));
        must(pthread_mutex_unlock(mutex));
    }
}

static void come(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0) {
    }
}

// Has been at each mutex when the other thread comes, and is there again behind it.
static void *other(void *unused)
{
    take(&mutexes[PLAIN]);
    must(pthread_mutex_unlock(&mutexes[HANDED_ON]));
    must(pthread_mutex_lock(&mutexes[WAITED_WITH]));
    told = 1;
    must(pthread_cond_signal(&condition));
    must(pthread_mutex_unlock(&mutexes[WAITED_WITH]));
    must(sem_post(&there));
    come(&here);
    hurry(&own[1]);
    // The waiter woke, and has let it go since.
    for (int mutex = 0; mutex < MUTEXES; mutex++)
        take(&mutexes[mutex]);
    return unused;
}

// AHEAD
int main(int argc, char **argv)
{
    ahead = number(argc, argv, 1, 1000);
    for (int mutex = 0; mutex < MUTEXES; mutex++)
        must(pthread_mutex_init(&mutexes[mutex], NULL));
    must(sem_init(&here, 0, 0));
    must(sem_init(&there, 0, 0));
    must(pthread_mutex_lock(&mutexes[HANDED_ON]));
    must(pthread_mutex_lock(&mutexes[WAITED_WITH]));
    pthread_t thread;
    must(pthread_create(&thread, NULL, other, NULL));
    while (!told)
        must(pthread_cond_wait(&condition, &mutexes[WAITED_WITH]));
    must(pthread_mutex_unlock(&mutexes[WAITED_WITH]));
    come(&there);
    hurry(&own[0]);
    take(&mutexes[PLAIN]);
    hurry(&own[0]);
    take(&mutexes[HANDED_ON]);
    take(&mutexes[WAITED_WITH]);
    must(sem_post(&here));
    must(pthread_join(thread, NULL));
    show("order", &transcript);
    return 0;
}
