// A tree of processes, each made in another way and ended in another way. Every line begins with the id of the process
// that prints it; the first one says with which status, as a shell gives it, the process shall end.
//
// usage: tree            the whole tree
//        tree ROLE       one that was started as a program
//        tree sharing    a process and its child with writable memory in common

#include "../transcript.h"
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>

extern char **environ;
static const char *self;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static unsigned long turns;
static int enough;

// One write a line: several processes share the output.
static void say(const char *text, unsigned long number)
{
    char line[200];
    int length = snprintf(line, sizeof line, "%d %s %lu\n", getpid(), text, number);
    must_be(write(1, line, length) == length);
}

// What no process has in common with another, or with another run.
static unsigned long dice(void)
{
    unsigned long thrown;
    must_be(getrandom(&thrown, sizeof thrown, 0) == sizeof thrown);
    return thrown;
}

static void begin(const char *role, int status)
{
    say(role, 0);
    say("shall end with", status);
    say("threw", dice());
}

static int ended(pid_t child)
{
    int status;
    must_be(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void *turning(void *unused)
{
    int stop = 0;
    while (!stop) {
        pthread_mutex_lock(&guard);
        turns++;
        stop = enough;
        pthread_mutex_unlock(&guard);
        usleep(300);
    }
    return unused;
}

static void start_threads(pthread_t *threads, int count)
{
    enough = 0;
    for (int i = 0; i < count; i++)
        must(pthread_create(&threads[i], NULL, turning, NULL));
}

static void end_threads(pthread_t *threads, int count)
{
    pthread_mutex_lock(&guard);
    enough = 1;
    pthread_mutex_unlock(&guard);
    for (int i = 0; i < count; i++)
        must(pthread_join(threads[i], NULL));
}

// A child gets the memory of all threads, as it is at that moment: nobody turns meanwhile.
static pid_t fork_in_peace(void)
{
    pthread_mutex_lock(&guard);
    pid_t child = fork();
    pthread_mutex_unlock(&guard);
    must_be(child >= 0);
    return child;
}

// Fork without exec, twice: the inner one crashes.
__attribute__((noinline)) static void grandchild(unsigned long inherited)
{
    begin("grandchild of a fork", 128 + SIGSEGV);
    say("inherited", inherited);
    raise(SIGSEGV);
}

static void forked(void)
{
    pthread_t threads[2];
    begin("forked", 17);
    start_threads(threads, 2);
    unsigned long mine = dice();
    say("drew", mine);
    pid_t child = fork_in_peace();
    if (child == 0)
        grandchild(mine);
    say("its child ended with", ended(child));
    end_threads(threads, 2);
    say("turned", turns);
    _exit(17);
}

static pid_t spawned(const char *role)
{
    pid_t child;
    char *const words[] = { (char *)self, (char *)role, NULL };
    must(posix_spawnp(&child, self, NULL, NULL, words, environ));
    return child;
}

// Fork and exec, with the ends of children ignored: the kernel keeps no status of them.
static void executed(void)
{
    signal(SIGCHLD, SIG_IGN);
    begin("forked, shall execute", 35);
    pid_t child = fork();
    must_be(child >= 0);
    if (child == 0) {
        begin("child that nobody waits for", 5);
        _exit(5);
    }
    must_be(waitpid(child, NULL, 0) < 0 && errno == ECHILD);
    execlp(self, self, "executed", NULL);
    _exit(99);
}

// Ended by its parent, in the midst of things.
static void endless(int told)
{
    begin("endless", 128 + SIGKILL);
    must_be(write(told, "x", 1) == 1);
    for (;;)
        pause();
}

static void stopped(void)
{
    begin("stops itself", 8);
    raise(SIGSTOP);
    say("goes on", dice());
    exit(8);
}

static void killed_and_stopped(void)
{
    int ends[2], status;
    char byte;
    must_be(pipe(ends) == 0);
    pid_t child = fork_in_peace();
    if (child == 0)
        endless(ends[1]);
    must_be(read(ends[0], &byte, 1) == 1 && kill(child, SIGKILL) == 0);
    say("killed one, which ended with", ended(child));
    child = fork_in_peace();
    if (child == 0)
        stopped();
    must_be(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    must_be(kill(child, SIGCONT) == 0);
    say("one had stopped and ended with", ended(child));
}

static int tree(void)
{
    pthread_t threads[3];
    begin("root", 9);
    start_threads(threads, 3);
    pid_t child = fork_in_peace();
    if (child == 0)
        forked();
    pid_t other = spawned("spawned");
    say("the spawned one ended with", ended(other));
    say("the forked one ended with", ended(child));
    child = vfork();
    must_be(child >= 0);
    if (child == 0)
        executed();
    say("the executed one ended with", ended(child));
    killed_and_stopped();
    end_threads(threads, 3);
    say("turned", turns);
    return 9;
}

static int sharing(void)
{
    unsigned long *common =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must_be(common != MAP_FAILED);
    pid_t child = fork();
    must_be(child >= 0);
    if (child == 0) {
        *common = dice();
        _exit(0);
    }
    must_be(ended(child) == 0);
    say("found", *common);
    return 0;
}

int main(int count, char **arguments)
{
    self = arguments[0];
    if (count == 1)
        return tree();
    if (strcmp(arguments[1], "sharing") == 0)
        return sharing();
    if (strcmp(arguments[1], "spawned") == 0) {
        begin("spawned", 21);
        say("its shell ended with", system("exit 3") >> 8);
        say("the one that it spawned ended with", ended(spawned("leaf")));
        return 21;
    }
    if (strcmp(arguments[1], "leaf") == 0) {
        begin("leaf", 128 + SIGTERM);
        raise(SIGTERM);
    }
    begin("executed", 35);
    return 35;
}
