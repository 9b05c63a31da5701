// Threads fork, open and close streams, look users up, for which libc opens streams of its own, and flush them all: libc's
// fork holds the lock of the list of streams while it makes the child.
#include "../transcript.h"
#include <pwd.h>
#include <sys/wait.h>

static struct transcript order;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void took_turn(int who)
{
    must(pthread_mutex_lock(&mutex));
    note(&order, (uint64_t)who);
    must(pthread_mutex_unlock(&mutex));
}

static void made_child(int who)
{
    int status;
    pid_t child = fork();
    must_be(child >= 0);
    if (child == 0)
        _exit(who);
    must_be(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == who);
}

static void opened(int who)
{
    FILE *stream = fopen("/dev/null", "r+");
    must_be(stream && fprintf(stream, "%d\n", who) > 0 && fclose(stream) == 0);
}

static void looked_up(void)
{
    char space[4096];
    struct passwd entry, *found;
    must(getpwnam_r("daemon", &entry, space, sizeof space, &found));
    must_be(found == &entry);
}

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0; round < 60; round++) {
        if (who % 4 == 0)
            made_child(who);
        else if (who % 4 == 1)
            opened(who);
        else if (who % 4 == 2)
            looked_up();
        else
            must_be(fflush(NULL) == 0);
        took_turn(who);
    }
    return NULL;
}

// THREADS
int main(int argc, char **argv)
{
    crew(number(argc, argv, 1, 4), worker);
    show("order", &order);
    return 0;
}
