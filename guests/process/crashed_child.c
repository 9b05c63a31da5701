// Children that a signal ends: nobody told their parent how far they had come, yet
// what it does after the wait comes after all that they did.
#include "../rounds.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

static void crash(const char *how)
{
    if (is(how, "abort"))
        abort();
    // The check of a sanitiser or compiler may not see that this is meant.
    volatile int *volatile nowhere = NULL;
    *nowhere = 1;
}

static void in_child(int threads, int number, const char *how)
{
    crew(threads, worker);
    printf("child %d: ", number);
    show("order", &transcript);
    must_be(fflush(stdout) == 0);
    crash(how);
}

// THREADS ROUNDS abort|fault
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 3);
    const char *how = word(argc, argv, 3, "abort");
    struct rlimit no_core = {0, 0};
    rounds = number(argc, argv, 2, 50);
    must_be(setrlimit(RLIMIT_CORE, &no_core) == 0);
    for (int child = 0; child < 3; child++) {
        int status;
        pid_t pid = fork();
        must_be(pid >= 0);
        if (pid == 0)
            in_child(threads, child, how);
        must_be(waitpid(pid, &status, 0) == pid);
        must_be(WIFSIGNALED(status) && WTERMSIG(status) == (is(how, "abort") ? SIGABRT : SIGSEGV));
        crew(threads, worker);
        show("parent", &transcript);
        must_be(fflush(stdout) == 0);
    }
    return 0;
}
