// A thread works until a flag tells it to stop, which is no atomic variable. Whoever sets the flag has
// operations of its own before that, which a replay runs after all of the thread's that were recorded.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>

// Volatile in code alone: its type does not tell.
#define ANEW(variable) (*(volatile __typeof__(variable) *)&(variable))
static char stop;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long rounds;

// A sleep would tell how far the others are meanwhile.
static void wait_for(long microseconds)
{
    sigset_t none;
    sigemptyset(&none);
    sigtimedwait(&none, NULL, &(struct timespec){0, microseconds * 1000});
}

static void *work(void *argument)
{
    struct timeval now;
    while (!ANEW(stop)) {
        gettimeofday(&now, NULL);
        pthread_mutex_lock(&mutex);
        rounds++;
        pthread_mutex_unlock(&mutex);
        wait_for(100);
    }
    return argument;
}

int main(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL) != 0)
        return 1;
    for (int line = 0; line < 20; line++) {
        wait_for(500);
        pthread_mutex_lock(&mutex);
        printf("%d\n", line);
        pthread_mutex_unlock(&mutex);
    }
    FILE *other = fopen("/dev/null", "w");
    fprintf(other, "enough\n");
    fclose(other);
    ANEW(stop) = 1;
    pthread_join(thread, NULL);
    printf("%ld rounds\n", rounds);
    return 0;
}
