/* The bundled example: a program whose printed result depends on which thread
 * gets a lock first. Nothing is wrong with it but that nobody can predict it:
 * four ticket counters sell the seats of one hall, and every run ends otherwise.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

enum { COUNTERS = 4, SEATS = 20000 };

static pthread_mutex_t hall = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t opening;
static int next_seat;
static int last_buyer;
static unsigned fingerprint = 2166136261u;

static void *sell(void *argument)
{
    int counter = (int)(long)argument;
    long sold = 0;
    pthread_barrier_wait(&opening);
    for (;;) {
        pthread_mutex_lock(&hall);
        if (next_seat == SEATS) {
            pthread_mutex_unlock(&hall);
            return (void *)sold;
        }
        next_seat++;
        last_buyer = counter;
        fingerprint = (fingerprint ^ (unsigned)counter) * 16777619u;
        pthread_mutex_unlock(&hall);
        sold++;
        if (sold % (20 + 7 * counter) == 0)
            sched_yield(); /* a customer with questions */
    }
}

int main(void)
{
    pthread_t counters[COUNTERS];
    pthread_barrier_init(&opening, NULL, COUNTERS);
    for (long i = 0; i < COUNTERS; i++)
        pthread_create(&counters[i], NULL, sell, (void *)i);
    printf("seats sold");
    for (int i = 0; i < COUNTERS; i++) {
        void *sold;
        pthread_join(counters[i], &sold);
        printf(" %ld", (long)sold);
    }
    printf(", the last one by counter %d, order %08x\n", last_buyer, fingerprint);
    return 0;
}
