// std::call_once, whose exceptions leave through pthread_once.
#include "../transcript.h"
#include <mutex>

static std::once_flag flags[8];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static transcript order;
static bool throwing;
static int attempts[8];
static int rounds;

static void lock_and_note(int what)
{
    must(pthread_mutex_lock(&mutex));
    note(&order, what);
    must(pthread_mutex_unlock(&mutex));
}

static void initialise(int index, int who)
{
    int attempt = ++attempts[index];
    lock_and_note(who);
    jitter();
    lock_and_note(who);
    if (throwing && attempt <= 3)
        throw attempt;
}

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        int index = (who * 3 + round) % 8;
        try {
            std::call_once(flags[index], initialise, index, who);
        } catch (int attempt) {
            lock_and_note(50 + attempt);
        }
        lock_and_note(20 + who);
    }
    return nullptr;
}

// THREADS ROUNDS plain|throw
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 24);
    throwing = is(word(argc, argv, 3, "plain"), "throw");
    crew(threads, worker);
    show("order", &order);
    for (int index = 0; index < 8; index++)
        printf("attempts %d %d\n", index, attempts[index]);
    return 0;
}
