// Becomes another user, who may read neither the trace nor relive's own files, and
// then starts processes and programs in every way: other_user SECRET [WAY].
// Random bytes show what is recorded and what is not: a replay has others where a
// process was not recorded.
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char *own, *secret;

static void need(int ok, const char *what)
{
    if (!ok) {
        perror(what);
        exit(99);
    }
}

// More bytes than stand in a thread's stream.
static unsigned drawn(void)
{
    static unsigned char bytes[5000];
    int fd = open("/dev/urandom", O_RDONLY);
    need(fd >= 0 && read(fd, bytes, sizeof bytes) == (int)sizeof bytes, "urandom");
    close(fd);
    unsigned sum = 0;
    for (size_t at = 0; at < sizeof bytes; at++)
        sum = sum * 31 + bytes[at];
    return sum;
}

static void tell(const char *what)
{
    int opened = open(secret, O_RDONLY);
    printf("%s: user %d group %d secret %s drawn %08x preload %s\n", what, (int)geteuid(), (int)getegid(),
           opened < 0 ? strerror(errno) : "open", drawn(), getenv("LD_PRELOAD") ? "set" : "unset");
    fflush(stdout);
}

static void wait_for(pid_t child)
{
    int status;
    need(child > 0 && waitpid(child, &status, 0) == child, "child");
    printf("status %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    fflush(stdout);
}

static void start(const char *way)
{
    char *arguments[] = {own, secret, (char *)way, NULL}, *empty[] = {NULL};
    char *shell[] = {"sh", "-c", "\"$0\" \"$1\" shell; echo | cat; exec \"$0\" \"$1\" shell_exec", own, secret, NULL};
    if (strcmp(way, "execve") == 0)
        execve(own, arguments, empty);
    if (strcmp(way, "execvp") == 0)
        execvp("sh", shell);
    if (strcmp(way, "raw") == 0)
        syscall(SYS_execve, own, arguments, empty);
    if (strcmp(way, "execveat") == 0)
        syscall(SYS_execveat, AT_FDCWD, own, arguments, empty, 0);
    perror(way);
    _exit(98);
}

int main(int count, char **arguments)
{
    own = arguments[0];
    secret = arguments[1];
    if (count > 2) {
        tell(arguments[2]);
        return 7;
    }
    tell("before");
    need(setgroups(0, NULL) == 0 && setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0, "user");
    tell("after");
    pid_t child = fork();
    if (child == 0) {
        tell("fork");
        pid_t inner = fork();
        if (inner == 0) {
            tell("fork of a fork");
            _exit(3);
        }
        wait_for(inner);
        _exit(4);
    }
    wait_for(child);
    const char *const ways[] = {"execve", "execvp", "raw", "execveat"};
    for (size_t at = 0; at < sizeof ways / sizeof *ways; at++) {
        child = at % 2 ? vfork() : fork();
        if (child == 0)
            start(ways[at]);
        wait_for(child);
    }
    char *spawned[] = {own, secret, "posix_spawn", NULL}, *empty[] = {NULL};
    need(posix_spawn(&child, own, NULL, NULL, spawned, empty) == 0, "posix_spawn");
    wait_for(child);
    char line[4200];
    snprintf(line, sizeof line, "exec '%s' '%s' system", own, secret);
    printf("system %d\n", WEXITSTATUS(system(line)));
    fflush(stdout);
    start("execve");
}
