// A thread works and stores that it is done; another one looks for that and at the clock, and gives up at a deadline
// that does not come. How often it looks is a matter of time.
//
// usage: deadlines COUNT sleep|yield|spin|counter|poll

#include "../transcript.h"
#include <poll.h>
#include <time.h>
#include <x86intrin.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct transcript worked;
static volatile int is_done;
static int count;

static void *work(void *argument)
{
    for (int round = 0; round < count; round++) {
        for (int i = 0; i < 2000; i++) {
            must(pthread_mutex_lock(&mutex));
            worked.hash = fold(worked.hash, (uint64_t)i);
            must(pthread_mutex_unlock(&mutex));
        }
        pause_for(500000);
    }
    is_done = 1;
    return argument;
}

// In nanoseconds, or what the processor counts: some for each of them.
static uint64_t now(const char *way)
{
    struct timespec time;
    if (is(way, "counter"))
        return __rdtsc();
    must(clock_gettime(CLOCK_MONOTONIC, &time));
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

int main(int argc, char **argv)
{
    const char *way = argv[2];
    uint64_t deadline = now(way) + 1000000000000;
    struct transcript seen = {0};
    pthread_t worker;
    count = number(argc, argv, 1, 10);
    must(pthread_create(&worker, NULL, work, NULL));
    while (!is_done && now(way) < deadline)
        if (is(way, "sleep"))
            pause_for(1000000);
        else if (is(way, "yield"))
            sched_yield();
        else if (is(way, "poll"))
            must(poll(NULL, 0, 1));
    must_be(write(1, "looked\n", 7) == 7);
    must(pthread_mutex_lock(&mutex));
    note(&seen, worked.hash);
    must(pthread_mutex_unlock(&mutex));
    must(pthread_join(worker, NULL));
    note(&seen, now(way));
    must_be(now(way) < deadline);
    show("seen", &seen);
    return 0;
}
