// A handler makes processes, and strikes a thread that makes processes itself.
#include "../transcript.h"
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>

static volatile sig_atomic_t made;
static pthread_t first;
static sem_t answered;

static int child_of(int status)
{
    int found;
    pid_t child = fork();
    must_be(child >= 0);
    if (child == 0)
        _exit(status);
    pid_t ended;
    do {
        ended = waitpid(child, &found, 0);
    } while (ended < 0 && errno == EINTR);
    must_be(ended == child && WEXITSTATUS(found) == status);
    return 1;
}

static void make(int number)
{
    int before = errno;
    (void)number;
    made += child_of(7);
    sem_post(&answered);
    errno = before;
}

// As a handler of the program's that runs in a fork, it has an operation.
static void prepare(void)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    must(pthread_mutex_lock(&mutex));
    must(pthread_mutex_unlock(&mutex));
    usleep(200);
}

static void *sender(void *argument)
{
    for (int i = 0; i < *(int *)argument; i++) {
        must(pthread_kill(first, SIGUSR1));
        while (sem_wait(&answered) != 0) {
        }
    }
    return NULL;
}

// SIGNALS
int main(int argc, char **argv)
{
    int signals = number(argc, argv, 1, 20);
    pthread_t thread;
    struct sigaction action = {.sa_handler = make, .sa_flags = SA_RESTART};
    first = pthread_self();
    must(sem_init(&answered, 0, 0));
    must(sigaction(SIGUSR1, &action, NULL));
    must(pthread_atfork(prepare, NULL, NULL));
    must(pthread_create(&thread, NULL, sender, &signals));
    while (made < signals)
        child_of(3);
    must(pthread_join(thread, NULL));
    printf("%d in handlers\n", (int)made);
    return 0;
}
