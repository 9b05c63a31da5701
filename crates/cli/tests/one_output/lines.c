// Four processes write lines of LENGTH bytes to one place, COUNT each, without a pause; every other one to standard error.
//
// usage: lines COUNT LENGTH

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 4, LONGEST = 4000 };

static int write_lines(int child, int count, int length)
{
    char line[LONGEST + 1];
    for (int round = 0; round < count; round++) {
        snprintf(line, sizeof line, "%*d %d", length - 3, round, child);
        line[length - 1] = '\n';
        if (write(1 + round % 2, line, length) != length)
            return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    int count = argc == 3 ? atoi(argv[1]) : 0, length = argc == 3 ? atoi(argv[2]) : 0, worst = 0, status;
    if (count < 1 || length < 12 || length > LONGEST)
        return 2;
    for (int child = 0; child < CHILDREN; child++)
        if (fork() == 0)
            _exit(write_lines(child, count, length));
    while (wait(&status) > 0)
        worst |= status;
    return worst != 0;
}
