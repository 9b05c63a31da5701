// A create that fails takes no child number: with it counted, the children
// behind it would be known by other names.
#include "../transcript.h"
#include <signal.h>

#define NO_CLOCK 4711

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;

static void *worker(void *argument)
{
    for (int round = 0; round < 20; round++) {
        must(pthread_mutex_lock(&mutex));
        note(&transcript, (intptr_t)argument);
        must(pthread_mutex_unlock(&mutex));
        jitter();
    }
    return NULL;
}

static void never(union sigval value)
{
    (void)value;
    must_be(0);
}

static void *parent(void *argument)
{
    pthread_t ids[4];
    pthread_attr_t huge;
    must(pthread_attr_init(&huge));
    must(pthread_attr_setstacksize(&huge, (size_t)1 << 46));
    pthread_attr_t urgent;
    must(pthread_attr_init(&urgent));
    must(pthread_attr_setinheritsched(&urgent, PTHREAD_EXPLICIT_SCHED));
    must(pthread_attr_setschedpolicy(&urgent, SCHED_FIFO));
    must(pthread_attr_setschedparam(&urgent, &(struct sched_param){.sched_priority = 1}));
    // A priority that this policy does not have, which nobody may use.
    must(pthread_attr_setschedpolicy(&urgent, SCHED_OTHER));
    for (int child = 0; child < 4; child++) {
        must_be(pthread_create(&ids[child], &huge, worker, NULL) != 0);
        must(pthread_create(&ids[child], NULL, worker, (void *)((intptr_t)argument * 4 + child)));
        must_be(pthread_create(&(pthread_t){0}, &huge, worker, NULL) != 0);
        // Once the thread is there: it never runs.
        must_be(pthread_create(&(pthread_t){0}, &urgent, worker, NULL) == EINVAL);
        struct sigevent by_thread = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = never};
        must_be(timer_create(NO_CLOCK, &by_thread, &(timer_t){0}) == -1 && errno == EINVAL);
    }
    for (int child = 0; child < 4; child++)
        must(pthread_join(ids[child], NULL));
    return NULL;
}

// THREADS
int main(int argc, char **argv)
{
    crew(number(argc, argv, 1, 3), parent);
    show("order", &transcript);
    return 0;
}
