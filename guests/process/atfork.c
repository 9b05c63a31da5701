// Handlers registered with pthread_atfork lock everything before the fork and
// unlock it on both sides, so the child sees a consistent state and goes on with
// the same mutexes.
#include "../transcript.h"
#include <sys/wait.h>

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t other = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;
static int rounds;

static void lock_all(void)
{
    must(pthread_mutex_lock(&one));
    must(pthread_mutex_lock(&other));
    note(&transcript, 33);
}

static void unlock_all(void)
{
    must(pthread_mutex_unlock(&other));
    must(pthread_mutex_unlock(&one));
}

static void *worker(void *argument)
{
    for (int round = 0; round < rounds; round++) {
        must(pthread_mutex_lock(&one));
        must(pthread_mutex_lock(&other));
        note(&transcript, (intptr_t)argument);
        must(pthread_mutex_unlock(&other));
        must(pthread_mutex_unlock(&one));
        jitter();
    }
    return NULL;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    pthread_t ids[MOST_THREADS];
    rounds = number(argc, argv, 2, 50);
    must(pthread_atfork(lock_all, unlock_all, unlock_all));
    for (int who = 0; who < threads; who++)
        must(pthread_create(&ids[who], NULL, worker, (void *)(intptr_t)who));
    for (int child = 0; child < 3; child++) {
        pid_t id = fork();
        must_be(id >= 0);
        if (id == 0) {
            // What the parent's threads had done when it forked shows here.
            show("child", &transcript);
            crew(2, worker);
            show("child", &transcript);
            exit(7);
        }
        int status;
        must_be(waitpid(id, &status, 0) == id);
        must_be(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    }
    for (int who = 0; who < threads; who++)
        must(pthread_join(ids[who], NULL));
    show("order", &transcript);
    return 0;
}
