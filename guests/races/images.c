// A program that starts another one, whose code and data lie where its own do.
#include "twins.h"
#include <sys/wait.h>
#include <unistd.h>

static volatile int shared;

static void *one(void *argument)
{
    shared = 1; // race parents_one
    return argument;
}

static void *other(void *argument)
{
    shared = 2; // race parents_other
    return argument;
}

// What lies next to the program.
static void start(const char *program, char *const *words)
{
    char path[4096];
    snprintf(path, sizeof path, "%.4000s", program);
    char *slash = strrchr(path, '/');
    must_be(slash != NULL);
    strcpy(slash + 1, "images_child");
    pid_t child = fork();
    if (child == 0) {
        execv(path, words);
        _exit(97);
    }
    int status;
    must_be(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

// Which of both races: parent|child|both|neither.
int main(int argc, char **argv)
{
    const char *which = word(argc, argv, 1, "neither");
    start(argv[0], argv);
    side_by_side(one, is(which, "parent") || is(which, "both") ? other : idle, NULL);
    start(argv[0], argv);
    return 0;
}
