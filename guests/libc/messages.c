// Messages to stderr in their many forms, with arguments in registers and on the
// stack, and the ones that end the process.
#include "../transcript.h"
#include <err.h>
#include <error.h>
#include <wchar.h>

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0; round < 10; round++) {
        errno = ENOENT;
        warn("warn %d %g %s %d %d %d %d", who, 2.5, "three", 4, 5, 6, 7);
        warnx("warnx %d %Lg", who, 1.25L);
        error(0, EINVAL, "error %d %s %g %d %d %d", who, "two", 3.5, 4, 5, 6);
        error_at_line(0, 0, "file", round, "at line %d %g %d", who, 1.5, 3);
        error_at_line(0, ERANGE, "", 40, "of no name");
        error_at_line(0, -1, NULL, round, "of no file%s", "");
        fprintf(stderr, "%d %d %d %d %d %g %g %g %g %g %g %g %g %g\n", who, 2, 3, 4, 5, 1., 2., 3., 4., 5., 6., 7., 8., 9.);
        errno = EPERM;
        perror("perror");
        printf("%d.%d\n", who, round);
        jitter();
    }
    return NULL;
}

// THREADS err|errx|error [together]: with stderr on stdout, so that their order shows, too
int main(int argc, char **argv)
{
    if (is(word(argc, argv, 3, ""), "together"))
        must_be(dup2(1, 2) == 2);
    crew(number(argc, argv, 1, 4), worker);
    const char *how = word(argc, argv, 2, "err");
    errno = ENOENT;
    if (is(how, "err"))
        err(4, "%s %d %g", "ends", 2, 3.5);
    if (is(how, "errx"))
        errx(4, "%s %d %g", "ends", 2, 3.5);
    error(4, ENOENT, "%s %d %g", "ends", 2, 3.5);
    return 0;
}
