// Children by posix_spawn, system, popen and vfork + exec, from every thread. The
// child is this program again, running threads; what it prints is read by the
// thread that started it.
#include "../transcript.h"
#include <spawn.h>
#include <sys/wait.h>
#include <wchar.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;
static char self[4096];
static const char *how;
static char lines[MOST_THREADS][256];
extern char **environ;

static void *child_worker(void *argument)
{
    for (int round = 0; round < 20; round++) {
        must(pthread_mutex_lock(&mutex));
        note(&transcript, (intptr_t)argument);
        must(pthread_mutex_unlock(&mutex));
        jitter();
    }
    return NULL;
}

static void wait_for(pid_t child)
{
    int status;
    must_be(waitpid(child, &status, 0) == child);
    must_be(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

static void by_popen(int who)
{
    char command[5000];
    snprintf(command, sizeof command, "'%s' child", self);
    FILE *pipe = popen(command, "re");
    must_be(pipe != NULL);
    must_be(fwide(pipe, 0) < 0);
    must_be(fgets(lines[who], sizeof lines[who], pipe) != NULL);
    // fclose of such a stream waits for the process, too; the compiler would say that it is the wrong one.
    int (*const volatile closes)(FILE *) = who % 2 ? fclose : pclose;
    int status = closes(pipe);
    must_be(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

static void by_system(void)
{
    char command[5000];
    snprintf(command, sizeof command, "'%s' child >/dev/null", self);
    int status = system(command);
    must_be(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

static void by_spawn(int who)
{
    int ends[2];
    pid_t child;
    char *arguments[] = {self, (char *)"child", NULL};
    posix_spawn_file_actions_t actions;
    must_be(pipe2(ends, 02000000) == 0);
    must(posix_spawn_file_actions_init(&actions));
    must(posix_spawn_file_actions_adddup2(&actions, ends[1], 1));
    must(posix_spawn(&child, self, &actions, NULL, arguments, environ));
    must(posix_spawn_file_actions_destroy(&actions));
    close(ends[1]);
    must_be(read(ends[0], lines[who], sizeof lines[who] - 1) > 0);
    close(ends[0]);
    wait_for(child);
}

static void by_vfork(void)
{
    char *arguments[] = {self, (char *)"child", (char *)"quiet", NULL};
    pid_t child = vfork();
    must_be(child >= 0);
    if (child == 0) {
        execv(self, arguments);
        _exit(127);
    }
    wait_for(child);
}

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0; round < 10; round++) {
        must(pthread_mutex_lock(&mutex));
        note(&transcript, who);
        must(pthread_mutex_unlock(&mutex));
        jitter();
        if (round != 5)
            continue;
        if (is(how, "popen"))
            by_popen(who);
        else if (is(how, "system"))
            by_system();
        else if (is(how, "spawn"))
            by_spawn(who);
        else
            by_vfork();
    }
    return NULL;
}

// THREADS popen|system|spawn|vfork, or: child [quiet]
int main(int argc, char **argv)
{
    if (is(word(argc, argv, 1, "4"), "child")) {
        crew(3, child_worker);
        if (argc == 2)
            show("child", &transcript);
        return 3;
    }
    int threads = number(argc, argv, 1, 4);
    how = word(argc, argv, 2, "spawn");
    must_be(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    crew(threads, worker);
    show("order", &transcript);
    for (int who = 0; who < threads; who++)
        printf("%s", lines[who]);
    return 0;
}
