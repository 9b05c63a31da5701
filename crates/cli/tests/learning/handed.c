// A thread waits for a flag, which is no atomic variable, and then reads what whoever set it had written:
// only the flag has to be ordered.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { ROUNDS = 20 };

// Volatile in code alone: its type does not tell.
#define ANEW(variable) (*(volatile __typeof__(variable) *)&(variable))

static int flag;
static int one, two, three, four, five, six, seven, eight;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long looks, sum;

static void look(void)
{
    pthread_mutex_lock(&mutex);
    looks++;
    pthread_mutex_unlock(&mutex);
    usleep(50);
}

static void *take(void *argument)
{
    for (int round = 1; round <= ROUNDS; round++) {
        while (ANEW(flag) != round)
            look();
        sum += one + 2 * two + 3 * three + 4 * four + 5 * five + 6 * six + 7 * seven + 8 * eight;
        ANEW(flag) = -round;
    }
    return argument;
}

int main(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, take, NULL) != 0)
        return 1;
    for (int round = 1; round <= ROUNDS; round++) {
        one = round, two = round + 1, three = round + 2, four = round + 3;
        five = round + 4, six = round + 5, seven = round + 6, eight = round + 7;
        ANEW(flag) = round;
        while (ANEW(flag) != -round)
            look();
    }
    pthread_join(thread, NULL);
    printf("%ld after %ld looks\n", sum, looks);
    return 0;
}
