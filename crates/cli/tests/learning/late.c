// A thread computes for a while, and then waits for a flag that is no atomic variable. Whoever sets it
// takes it back soon after: in a replay, where that takes no time, before the thread looks.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

enum { ROWS = 256, LINE = 64 };

static long rows[ROWS * LINE / sizeof(long)];
static int flag;

// Volatile in code alone: its type does not tell.
#define ANEW(variable) (*(volatile __typeof__(variable) *)&(variable))

#define ROW(at) sum += ANEW(rows[(at) * LINE / sizeof(long)]);
#define FOUR(at) ROW(at) ROW((at) + 1) ROW((at) + 2) ROW((at) + 3)
#define SIXTEEN(at) FOUR(at) FOUR((at) + 4) FOUR((at) + 8) FOUR((at) + 12)
#define SIXTY_FOUR(at) SIXTEEN(at) SIXTEEN((at) + 16) SIXTEEN((at) + 32) SIXTEEN((at) + 48)
#define ALL SIXTY_FOUR(0) SIXTY_FOUR(64) SIXTY_FOUR(128) SIXTY_FOUR(192)

static void *late(void *argument)
{
    long sum = 0;
    for (long round = 0; round < 10000; round++) {
        ALL
    }
    long looks = 0;
    while (ANEW(flag) == 0)
        looks++;
    printf("%ld after %s looks\n", sum, looks > 1000 ? "many" : "few");
    return argument;
}

// A sleep would tell how far the others are meanwhile.
static void wait_for(long milliseconds)
{
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 300000};
    sigset_t none;
    sigemptyset(&none);
    sigtimedwait(&none, NULL, &time);
}

int main(void)
{
    for (int row = 0; row < ROWS; row++)
        rows[row * LINE / sizeof(long)] = row;
    pthread_t thread;
    if (pthread_create(&thread, NULL, late, NULL) != 0)
        return 1;
    wait_for(2000);
    ANEW(flag) = 1;
    // Long enough for a thread that looks to have a processor meanwhile, on a machine with other work.
    wait_for(1500);
    ANEW(flag) = 0;
    return pthread_join(thread, NULL);
}
