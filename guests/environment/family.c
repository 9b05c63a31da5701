// A process tree that talks through a pipe: ids, exit statuses and what the children took from outside.
//
// usage: family CHILDREN

#include "../transcript.h"
#include <signal.h>
#include <sys/random.h>
#include <sys/wait.h>

// A child that stops and is made to go on.
static void stopping(void)
{
    fflush(stdout);
    pid_t made = fork();
    must_be(made >= 0);
    if (made == 0) {
        raise(SIGSTOP);
        _exit(42);
    }
    int status;
    must_be(waitpid(made, &status, WUNTRACED) == made);
    printf("%d %s by %d\n", made, WIFSTOPPED(status) ? "stopped" : "did not stop", WSTOPSIG(status));
    must_be(kill(made, SIGCONT) == 0);
    must_be(waitpid(made, &status, 0) == made);
    printf("then %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

int main(int count, char **arguments)
{
    if (count != 2)
        return 2;
    int ends[2], wanted = atoi(arguments[1]);
    must_be(pipe(ends) == 0);
    printf("parent %d\n", getpid());
    for (int child = 0; child < wanted; child++) {
        fflush(stdout);
        pid_t made = fork();
        must_be(made >= 0);
        if (made == 0) {
            unsigned char dice;
            must_be(getrandom(&dice, 1, 0) == 1);
            printf("child %d of %d threw %d\n", getpid(), getppid(), dice);
            dprintf(ends[1], "%d:%d ", child, dice);
            fflush(stdout);
            if (child % 3 == 2)
                raise(SIGKILL);
            _exit(dice % 100);
        }
        int status;
        must_be(waitpid(made, &status, 0) == made);
        printf("child %d: %d is %s %d\n", child, made, WIFEXITED(status) ? "exited" : "killed",
               WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    }
    stopping();
    close(ends[1]);
    char text[4096];
    long got = read(ends[0], text, sizeof text - 1);
    text[got < 0 ? 0 : got] = 0;
    printf("said %s\n", text);
    return 3;
}
