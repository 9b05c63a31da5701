// Calls that would leave this image and fail: exec, posix_spawn and vfork + exec of
// what does not exist, from threads that go on afterwards.
#include "../transcript.h"
#include <spawn.h>
#include <sys/wait.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;
static int rounds;
extern char **environ;

// Apart, so that the vfork child has no variables of a loop to spoil.
static __attribute__((noinline)) pid_t vfork_nobody(const char *nowhere, char **nobody)
{
    pid_t child = vfork();
    if (child == 0) {
        execv(nowhere, nobody);
        _exit(127);
    }
    return child;
}

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    char *nobody[] = {(char *)"nobody", NULL};
    const char *nowhere = "/nonexistent/program";
    for (int round = 0; round < rounds; round++) {
        must(pthread_mutex_lock(&mutex));
        note(&transcript, who);
        must(pthread_mutex_unlock(&mutex));
        jitter();
        pid_t child;
        int status;
        switch ((who + round) % 4) {
        case 0:
            must_be(execv(nowhere, nobody) == -1 && errno == ENOENT);
            break;
        case 1:
            must_be(posix_spawn(&child, nowhere, NULL, NULL, nobody, environ) == ENOENT);
            break;
        case 2:
            child = vfork_nobody(nowhere, nobody);
            must_be(child >= 0);
            must_be(waitpid(child, &status, 0) == child);
            must_be(WIFEXITED(status) && WEXITSTATUS(status) == 127);
            break;
        default:
            must_be(execlp(nowhere, "nobody", (char *)NULL) == -1);
        }
    }
    return NULL;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 20);
    crew(threads, worker);
    show("order", &transcript);
    return 0;
}
