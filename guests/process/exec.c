// Replaces itself: from the main thread after its threads ended, while they run,
// or from a forked child; with the environment kept or cleared. The new image runs
// threads too.
#include "../rounds.h"
#include <sys/wait.h>

// THREADS joined|running|forked kept|cleared [last]
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    rounds = 30;
    const char *when = word(argc, argv, 2, "joined");
    int cleared = is(word(argc, argv, 3, "kept"), "cleared");
    char *arguments[] = {argv[0], argv[1], argv[2], argv[3], (char *)"last", NULL};
    char *nothing[] = {NULL};
    extern char **environ;
    if (argc > 4) {
        crew(threads, worker);
        show("behind", &transcript);
        return 5;
    }
    must_be(argc == 4);
    if (is(when, "running")) {
        pthread_t id;
        rounds = 1000000;
        for (int who = 0; who < threads; who++)
            must(pthread_create(&id, NULL, worker, (void *)(intptr_t)who));
        pause_for(2000000);
        must(pthread_mutex_lock(&mutex));
    } else {
        crew(threads, worker);
    }
    show("before", &transcript);
    fflush(stdout);
    if (is(when, "forked")) {
        int status;
        pid_t child = fork();
        must_be(child >= 0);
        if (child != 0) {
            must_be(waitpid(child, &status, 0) == child);
            must_be(WIFEXITED(status));
            printf("child %d\n", WEXITSTATUS(status));
            return 6;
        }
    }
    execve("/proc/self/exe", arguments, cleared ? nothing : environ);
    fail(__FILE__, __LINE__, "execve", errno);
}
