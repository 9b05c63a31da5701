// A semaphore of one as a lock, unnamed or named, by every wait, and its value.
#include "../transcript.h"
#include <fcntl.h>
#include <semaphore.h>

static sem_t unnamed;
static sem_t *lock = &unnamed;
static const char *how;
static int rounds;
static struct transcript transcript;
static unsigned long failures[MOST_THREADS];
static uint64_t values[MOST_THREADS];

static int attempt(int way)
{
    struct timespec until;
    switch (way) {
    case 0:
        return sem_wait(lock);
    case 1:
        return sem_trywait(lock);
    case 2:
        until = in_microseconds(CLOCK_REALTIME, 20);
        return sem_timedwait(lock, &until);
    default:
        until = in_microseconds(CLOCK_MONOTONIC, 20);
        return sem_clockwait(lock, CLOCK_MONOTONIC, &until);
    }
}

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        int way = is(how, "wait") ? 0 : is(how, "try") ? 1 : is(how, "timed") ? 2 : is(how, "clock") ? 3 : (who + round) % 4;
        int value = -1;
        must_be(sem_getvalue(lock, &value) == 0);
        values[who] = fold(values[who], value);
        while (attempt(way) != 0) {
            must_be(errno == EAGAIN || errno == ETIMEDOUT);
            failures[who]++;
            jitter();
        }
        note(&transcript, who);
        must_be(sem_post(lock) == 0);
        jitter();
    }
    return NULL;
}

// THREADS ROUNDS unnamed|named wait|try|timed|clock|mixed
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 100);
    int named = is(word(argc, argv, 3, "unnamed"), "named");
    how = word(argc, argv, 4, "wait");
    if (named) {
        char name[64];
        snprintf(name, sizeof name, "/relive-guest-%d", (int)getpid());
        must_be((lock = sem_open(name, O_CREAT | O_EXCL, 0600, 1)) != SEM_FAILED);
        sem_t *again = sem_open(name, 0);
        must_be(again == lock);
        must_be(sem_close(again) == 0);
        must_be(sem_unlink(name) == 0);
    } else {
        must_be(sem_init(lock, 0, 1) == 0);
    }
    crew(threads, worker);
    show("order", &transcript);
    for (int who = 0; who < threads; who++)
        printf("thread %d failures %lu values %016llx\n", who, failures[who], (unsigned long long)values[who]);
    must_be((named ? sem_close(lock) : sem_destroy(lock)) == 0);
    return 0;
}
