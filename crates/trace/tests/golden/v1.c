/* The program whose recording is kept in v1/. One of each: a jump, a check
 * hash, a value, a run of failures, a process, a thread that runs exit. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t ready, tried;

static void *turns(void *unused)
{
    for (int i = 0; i < 150; i++) {
        pthread_mutex_lock(&lock);
        sched_yield();
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

static void *tries(void *unused)
{
    sem_wait(&ready);
    for (int i = 0; i < 3; i++)
        if (pthread_mutex_trylock(&lock) != EBUSY)
            abort();
    sem_post(&tried);
    return unused;
}

int main(void)
{
    pthread_t threads[3];
    sem_init(&ready, 0, 0);
    sem_init(&tried, 0, 0);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, turns, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_lock(&lock);
    pthread_create(&threads[2], NULL, tries, NULL);
    sem_post(&ready);
    sem_wait(&tried);
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    if (pthread_cond_timedwait(&condition, &lock, &soon) != ETIMEDOUT)
        abort();
    pthread_mutex_unlock(&lock);
    pthread_join(threads[2], NULL);
    pid_t child = fork();
    if (child == 0) {
        pthread_mutex_lock(&lock);
        _exit(3);
    }
    waitpid(child, NULL, 0);
    exit(5);
}
