// A handler makes processes, and strikes a process that makes some itself. It has one thread: in one with more, a fork within
// a fork waits for a lock of libc's that its own thread holds.
#include "../transcript.h"
#include <signal.h>
#include <sys/wait.h>

static volatile sig_atomic_t made;
static int answers[2];

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
    must_be(write(answers[1], "", 1) == 1);
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

static void send(int signals)
{
    char answer;
    for (int i = 0; i < signals; i++) {
        must(kill(getppid(), SIGUSR1));
        must_be(read(answers[0], &answer, 1) == 1);
    }
    _exit(0);
}

// SIGNALS
int main(int argc, char **argv)
{
    int signals = number(argc, argv, 1, 20);
    int status;
    struct sigaction action = {.sa_handler = make, .sa_flags = SA_RESTART};
    must(pipe(answers));
    must(sigaction(SIGUSR1, &action, NULL));
    must(pthread_atfork(prepare, NULL, NULL));
    pid_t sender = fork();
    must_be(sender >= 0);
    if (sender == 0)
        send(signals);
    while (made < signals)
        child_of(3);
    while (waitpid(sender, &status, 0) < 0)
        must_be(errno == EINTR);
    printf("%d in handlers\n", (int)made);
    return 0;
}
