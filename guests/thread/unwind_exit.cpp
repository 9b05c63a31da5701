// pthread_exit and cancellation unwind through C++ frames whose destructors lock,
// through a catch-all that rethrows, and through once and thread start.
#include "../transcript.h"
#include <mutex>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static transcript order;

struct noter {
    int what;
    explicit noter(int what) : what(what) {}
    ~noter()
    {
        must(pthread_mutex_lock(&mutex));
        note(&order, what);
        must(pthread_mutex_unlock(&mutex));
        jitter();
    }
};

static void leave(int who, int depth)
{
    noter here(who);
    if (depth == 0) {
        if (who % 2)
            pthread_exit(nullptr);
        must(pthread_cancel(pthread_self()));
        pthread_testcancel();
        return;
    }
    try {
        leave(who, depth - 1);
    } catch (...) {
        noter caught(20 + who);
        throw;
    }
}

static void *worker(void *argument)
{
    leave((int)(intptr_t)argument, 5);
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
