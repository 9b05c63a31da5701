// A process that stops itself and goes on when its parent says so. What parent and child do in between takes turns in
// an order that nothing but the stop and the signal decides.

#include "../transcript.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

struct shared {
    pthread_mutex_t mutex;
    struct transcript transcript;
};

static void act(struct shared *shared, int who, int times)
{
    for (int i = 0; i < times; i++) {
        must(pthread_mutex_lock(&shared->mutex));
        note(&shared->transcript, who);
        must(pthread_mutex_unlock(&shared->mutex));
        jitter();
    }
}

// ROUNDS
int main(int argc, char **argv)
{
    int rounds = number(argc, argv, 1, 5);
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must_be(shared != MAP_FAILED);
    pthread_mutexattr_t attributes;
    must(pthread_mutexattr_init(&attributes));
    must(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED));
    must(pthread_mutex_init(&shared->mutex, &attributes));
    pid_t child = fork();
    must_be(child >= 0);
    if (child == 0) {
        for (int round = 0; round < rounds; round++) {
            act(shared, 1, 3);
            must_be((round % 2 ? kill(getpid(), SIGSTOP) : raise(SIGSTOP)) == 0);
            act(shared, 2, 3);
        }
        _exit(7);
    }
    int status;
    for (int round = 0; round < rounds; round++) {
        act(shared, 3, 3);
        must_be(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
        act(shared, 4, 3);
        must_be(kill(child, SIGCONT) == 0);
    }
    must_be(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    show("order", &shared->transcript);
    return 0;
}
