// A thread works and says how far it is by a plain variable; another one lets time pass and looks. Nothing but time
// orders the looks. Either it looks so often, or until the work is done.
//
// usage: lapses COUNT often|until WAY

#include "../transcript.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int round_now, is_done;
static const char *way;
static int count, queue;

static void lapse(int milliseconds)
{
    struct timespec exact = {.tv_nsec = milliseconds * 1000000};
    struct timeval rough = {.tv_usec = milliseconds * 1000};
    struct epoll_event event;
    if (is(way, "sleep"))
        must(nanosleep(&exact, NULL));
    else if (is(way, "poll"))
        must(poll(NULL, 0, milliseconds));
    else if (is(way, "ppoll"))
        must(ppoll(NULL, 0, &exact, NULL));
    else if (is(way, "select"))
        must(select(0, NULL, NULL, NULL, &rough));
    else
        must(epoll_wait(queue, &event, 1, milliseconds));
}

static void *work(void *argument)
{
    unsigned seed = (unsigned)getpid();
    for (int round = 1; round <= count; round++) {
        for (int i = rand_r(&seed) % 1000; i >= 0; i--) {
            must(pthread_mutex_lock(&mutex));
            must(pthread_mutex_unlock(&mutex));
        }
        round_now = round;
        lapse(1 + rand_r(&seed) % 4);
    }
    is_done = 1;
    return argument;
}

int main(int argc, char **argv)
{
    static struct transcript seen;
    pthread_t worker;
    int often;
    count = number(argc, argv, 1, 30);
    often = is(argv[2], "often") ? count : 0;
    way = argv[3];
    must_be((queue = epoll_create1(0)) >= 0);
    must(pthread_create(&worker, NULL, work, NULL));
    for (int look = 0; look < often || (often == 0 && !is_done); look++) {
        lapse(3);
        if (often > 0)
            note(&seen, round_now);
    }
    must(pthread_mutex_lock(&mutex));
    note(&seen, round_now);
    must(pthread_mutex_unlock(&mutex));
    must(pthread_join(worker, NULL));
    show("seen", &seen);
    return 0;
}
