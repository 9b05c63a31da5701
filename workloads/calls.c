// What one cheap system call costs: `calls` prints nanoseconds for each of many getppid.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

// -n CALLS
int main(int argc, char **argv)
{
    long calls = 1000000;
    int option;
    while ((option = getopt(argc, argv, "n:")) != -1) {
        if (option == 'n')
            calls = atol(optarg);
    }
    double start = now();
    for (long i = 0; i < calls; i++)
        (void)getppid();
    printf("calls n=%ld ns=%.1f\n", calls, (now() - start) / (double)calls);
    return 0;
}
