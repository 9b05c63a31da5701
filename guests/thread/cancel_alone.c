// A process whose only thread cancels itself, and a child that does: libc loads the library that unwinds then.
#include "../transcript.h"
#include <sys/wait.h>

static void cleanup(void *name)
{
    printf("%s is cancelled\n", (char *)name);
    fflush(stdout);
}

static int cancel(char *name)
{
    pthread_cleanup_push(cleanup, name);
    must(pthread_cancel(pthread_self()));
    pthread_testcancel();
    pthread_cleanup_pop(0);
    return 1;
}

// alone|child
int main(int argc, char **argv)
{
    if (is(word(argc, argv, 1, "alone"), "alone"))
        return cancel("the process");
    int status;
    pid_t child = fork();
    must_be(child >= 0);
    if (child == 0)
        return cancel("the child");
    must_be(waitpid(child, &status, 0) == child);
    printf("status %d\n", status);
    return 0;
}
