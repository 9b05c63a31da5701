// Starts programs in every way, and fails to in every way. Prints the same wherever it runs.
//
// usage: starts FOLDER     makes its files in FOLDER, an empty one
//        starts report ... tells who it is

#include "../transcript.h"
#include <fcntl.h>
#include <spawn.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;
static char own[4096];

static void print_file(const char *name)
{
    char text[4096];
    int fd = open(name, O_RDONLY);
    must_be(fd >= 0);
    long got = read(fd, text, sizeof text - 1);
    close(fd);
    for (long i = 0; i < got; i++)
        putchar(text[i] == 0 ? ' ' : text[i] == '\n' ? '|' : text[i]);
}

static int report(int count, char **arguments)
{
    printf("   ");
    for (int i = 0; i < count; i++)
        printf(" [%s]", arguments[i]);
    printf(" by %s\n    comm ", (char *)getauxval(AT_EXECFN));
    print_file("/proc/self/comm");
    printf(" cmdline ");
    print_file("/proc/self/cmdline");
    char link[4096] = "", same[64];
    must_be(readlink("/proc/self/exe", link, sizeof link - 1) > 0);
    printf("\n    exe %s", strrchr(link, '/'));
    struct stat by_link, by_name, opened;
    int fd = open("/proc/self/exe", O_RDONLY);
    snprintf(same, sizeof same, "/proc/%d/exe", getpid());
    must_be(stat(same, &by_link) == 0 && stat(link, &by_name) == 0 && fstat(fd, &opened) == 0);
    int is_same = by_link.st_ino == by_name.st_ino && opened.st_ino == by_name.st_ino;
    int ours = 0;
    for (char **entry = environ; *entry; entry++)
        ours += strncmp(*entry, "RELIVE_", 7) == 0 || strncmp(*entry, "LD_PRELOAD", 10) == 0;
    struct rlimit limit;
    must_be(getrlimit(RLIMIT_STACK, &limit) == 0);
    printf(" same %d environment %d stack %lu secure %lu", is_same, ours, (unsigned long)limit.rlim_cur >> 10,
           getauxval(AT_SECURE));
    // What others see of it.
    unsigned long vector[128] = {0}, entry = 0;
    fd = open("/proc/self/auxv", O_RDONLY);
    must_be(read(fd, vector, sizeof vector) > 0);
    for (int i = 0; i < 126 && vector[i]; i += 2)
        if (vector[i] == AT_ENTRY)
            entry = vector[i + 1];
    printf(" entry %d\n", entry == getauxval(AT_ENTRY));
    fflush(stdout);
    return 30 + count;
}

static void ended(int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) < 100)
        printf("    ended %d\n", WEXITSTATUS(status));
    else if (WIFEXITED(status))
        printf("    failed: %s\n", strerror(WEXITSTATUS(status) - 100));
    else
        printf("    killed %d\n", WTERMSIG(status));
}

// In a child: `call`, which returns only if it fails.
#define IN_CHILD(what, call)                                                                                           \
    do {                                                                                                               \
        printf("%s\n", what);                                                                                          \
        fflush(stdout);                                                                                                \
        pid_t made = fork();                                                                                           \
        must_be(made >= 0);                                                                                            \
        if (made == 0) {                                                                                               \
            call;                                                                                                      \
            _exit(100 + errno);                                                                                        \
        }                                                                                                              \
        int status;                                                                                                    \
        must_be(waitpid(made, &status, 0) == made);                                                                    \
        ended(status);                                                                                                 \
    } while (0)

static void put(const char *name, const char *text, int mode)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, mode);
    must_be(fd >= 0 && write(fd, text, strlen(text)) == (long)strlen(text));
    close(fd);
}

static void copy_own(const char *name)
{
    char command[9000];
    snprintf(command, sizeof command, "cp '%s' '%s'", own, name);
    must_be(system(command) == 0);
}

static void all_succeed(void)
{
    char *words[] = {"first word", "report", "a b", "", NULL}, *none[] = {NULL}, *little[] = {"A=B", NULL};
    IN_CHILD("execv", execv(own, words));
    IN_CHILD("execve with little environment", execve(own, words, little));
    IN_CHILD("execve without environment", execve(own, words, none));
    IN_CHILD("execlp", execlp("program", "p", "report", NULL));
    IN_CHILD("relative", execv("./program", words));
    IN_CHILD("by link", execv("link", words));
    IN_CHILD("in another folder", must_be(chdir("sub") == 0); execv("../program", words));
    IN_CHILD("itself", execv("/proc/self/exe", words));
    IN_CHILD("fexecve", fexecve(open("program", O_RDONLY), words, environ));
    IN_CHILD("fexecve, closed on exec", fexecve(open("program", O_RDONLY | O_CLOEXEC), words, environ));
    IN_CHILD("execveat", execveat(open(".", O_PATH), "sub/../program", words, environ, 0));
    IN_CHILD("execveat here", execveat(AT_FDCWD, "program", words, environ, 0));
    IN_CHILD("bare call", syscall(SYS_execve, own, words, environ));
    IN_CHILD("script", execl("./script", "zero", "one", "two three", NULL));
    IN_CHILD("script of a script", execl("./outer", "zero", "one", NULL));
    IN_CHILD("script by fexecve", fexecve(open("./script", O_RDONLY), words, environ));
    IN_CHILD("script without a first line", execlp("plain", "plain", "x", NULL));
    struct rlimit limit = {3 << 20, RLIM_INFINITY};
    getrlimit(RLIMIT_STACK, &limit);
    limit.rlim_cur = 3 << 20;
    IN_CHILD("less stack", setrlimit(RLIMIT_STACK, &limit); execv(own, words));
    pid_t made;
    int status;
    puts("posix_spawn");
    fflush(stdout);
    must_be(posix_spawn(&made, own, NULL, NULL, words, environ) == 0 && waitpid(made, &status, 0) == made);
    ended(status);
    puts("posix_spawnp of a script");
    fflush(stdout);
    must_be(posix_spawnp(&made, "script", NULL, NULL, words, environ) == 0 && waitpid(made, &status, 0) == made);
    ended(status);
    puts("vfork");
    fflush(stdout);
    if ((made = vfork()) == 0) {
        execv(own, words);
        _exit(1);
    }
    must_be(waitpid(made, &status, 0) == made);
    ended(status);
    puts("system");
    fflush(stdout);
    ended(system("./program report | cat; ./script $0 | wc -w; exec ./program report last"));
    puts("popen");
    char line[5000];
    FILE *stream = popen("./program report by popen", "r");
    while (fgets(line, sizeof line, stream))
        printf("   %s", line);
    ended(pclose(stream));
}

static void all_fail(void)
{
    char *words[] = {"word", "report", NULL};
    IN_CHILD("not there", execv("./nothing", words));
    IN_CHILD("not in PATH", execvp("nothing-of-this-name", words));
    IN_CHILD("empty", execv("", words));
    IN_CHILD("empty in PATH", execvp("", words));
    IN_CHILD("a folder", execv("./sub", words));
    IN_CHILD("through a file", execv("./program/x", words));
    IN_CHILD("not executable", execv("./data", words));
    IN_CHILD("no format", execv("./plain", words));
    IN_CHILD("cut off", execv("./cut", words));
    IN_CHILD("interpreter not there", execv("./lost", words));
    IN_CHILD("interpreter not executable", execv("./unable", words));
    IN_CHILD("loops", execv("./loop", words));
    IN_CHILD("open for writing", open("copy", O_WRONLY); execv("./copy", words));
    IN_CHILD("no descriptor", fexecve(99, words, environ));
    IN_CHILD("a link not to be followed", execveat(AT_FDCWD, "link", words, environ, AT_SYMLINK_NOFOLLOW));
    IN_CHILD("no pointer", syscall(SYS_execve, (char *)16, words, environ));
    IN_CHILD("no list", syscall(SYS_execve, own, (char **)16, environ));
    static char large[200000];
    memset(large, 'x', sizeof large - 1);
    IN_CHILD("a word too long", execl(own, "x", large, NULL));
    static char *many[3000];
    large[100000] = 0;
    for (int i = 0; i < 2999; i++)
        many[i] = large;
    IN_CHILD("too many words", execv(own, many));
    // And in this process itself, which goes on.
    printf("here %d", execv("./nothing", words));
    printf(" %s", strerror(errno));
    printf(" %d", execvp("nothing-of-this-name", words));
    printf(" %s", strerror(errno));
    printf(" %d", execv("./data", words));
    printf(" %s\n", strerror(errno));
    pid_t made;
    printf("posix_spawn %s", strerror(posix_spawn(&made, "./nothing", NULL, NULL, words, environ)));
    printf(" %s", strerror(posix_spawnp(&made, "nothing-of-this-name", NULL, NULL, words, environ)));
    printf(" %s\n", strerror(posix_spawn(&made, "./data", NULL, NULL, words, environ)));
}

int main(int count, char **arguments)
{
    if (count > 1 && strcmp(arguments[1], "report") == 0)
        return report(count, arguments);
    if (count > 2 && strncmp(arguments[1], "-x", 2) == 0)
        return report(count, arguments);
    if (count != 2)
        return 2;
    must_be(readlink("/proc/self/exe", own, sizeof own - 1) > 0);
    must_be(chdir(arguments[1]) == 0 && setenv("PATH", ".:/usr/bin:/bin", 1) == 0);
    char text[9000];
    must_be(mkdir("sub", 0755) == 0);
    copy_own("program");
    copy_own("copy");
    must_be(symlink("program", "link") == 0);
    snprintf(text, sizeof text, "#! %s/program -x  y \nnever read\n", arguments[1]);
    put("script", text, 0755);
    snprintf(text, sizeof text, "#!%s/script outer\n", arguments[1]);
    put("outer", text, 0755);
    put("plain", "echo plain $0 $1\n", 0755);
    put("data", "data\n", 0644);
    put("cut", "\177ELF\2\1\1", 0755);
    put("lost", "#!/no/such/interpreter\n", 0755);
    snprintf(text, sizeof text, "#!%s/data\n", arguments[1]);
    put("unable", text, 0755);
    snprintf(text, sizeof text, "#!%s/loop\n", arguments[1]);
    put("loop", text, 0755);
    all_succeed();
    all_fail();
    puts("and at last itself");
    fflush(stdout);
    execl("program", "end", "report", NULL);
    return 1;
}
