// thread_local objects whose destructors lock, after the start routine ended.
#include "../transcript.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static transcript order;

struct noter {
    int who;
    explicit noter(int who) : who(who) {}
    ~noter()
    {
        for (int step = 0; step < 3; step++) {
            jitter();
            must(pthread_mutex_lock(&mutex));
            note(&order, who);
            must(pthread_mutex_unlock(&mutex));
        }
    }
};

static void *worker(void *argument)
{
    thread_local noter one((int)(intptr_t)argument);
    thread_local noter other((int)(intptr_t)argument + 10);
    if (one.who + other.who % 2 == 1)
        pthread_exit(nullptr);
    return nullptr;
}

// THREADS
int main(int argc, char **argv)
{
    for (int generation = 0; generation < 5; generation++)
        crew(number(argc, argv, 1, 4), worker);
    show("order", &order);
    return 0;
}
