// Forked processes: memory of their own at the same addresses, and threads that race in one of them.
#include "twins.h"
#include <sys/mman.h>
#include <sys/wait.h>

static volatile int shared;
static volatile int *common;

static void *one(void *argument)
{
    shared = 1; // race one
    return argument;
}

static void *other(void *argument)
{
    shared = 2; // race other
    return argument;
}

static void wait_for(pid_t child)
{
    int status;
    must_be(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

// Parent and child write what was the same location before.
static void copies(void)
{
    pid_t child = fork();
    shared = child;
    if (child == 0)
        _exit(0);
    wait_for(child);
}

// The fork does not order the parent's own threads.
static void in_parent(void)
{
    pthread_t thread;
    must(pthread_create(&thread, NULL, one, NULL));
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    shared = 3; // race in_parent
    wait_for(child);
    must(pthread_join(thread, NULL));
}

static void in_child(void)
{
    pid_t child = fork();
    if (child == 0) {
        side_by_side(one, other, NULL);
        _exit(0);
    }
    wait_for(child);
}

// What the parent's thread did is not done in the child, where that thread does not exist.
static void left_behind(void)
{
    pthread_t thread;
    must(pthread_create(&thread, NULL, one, NULL));
    pid_t child = fork();
    if (child == 0) {
        shared = 3;
        _exit(0);
    }
    wait_for(child);
    must(pthread_join(thread, NULL));
}

// Memory of both: the end of the child comes before the parent's wait for it.
static void waited(void)
{
    common = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must_be(common != MAP_FAILED);
    *common = 1;
    pid_t child = fork();
    if (child == 0) {
        *common = 2;
        _exit(0);
    }
    wait_for(child);
    *common = 3;
}

int main(int argc, char **argv)
{
    const char *name = word(argc, argv, 1, "");
    if (is(name, "copies"))
        copies();
    else if (is(name, "in_parent"))
        in_parent();
    else if (is(name, "in_child"))
        in_child();
    else if (is(name, "left_behind"))
        left_behind();
    else if (is(name, "waited"))
        waited();
    else
        return 98;
    return 0;
}
