// C++ function-local statics whose initialisers lock: some threads take the
// compiled-in fast path, others call the guard, and that differs between runs.
// With the word `throw`, the first attempts at each static end in an exception.
#include "../transcript.h"
#include <utility>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static transcript order;
static bool throwing;
static int attempts[16];
static thread_local int self;

static void lock_and_note(int what)
{
    must(pthread_mutex_lock(&mutex));
    note(&order, what);
    must(pthread_mutex_unlock(&mutex));
}

struct thing {
    int maker;
    explicit thing(int index) : maker(self)
    {
        // The guard itself protects the count of attempts.
        int attempt = ++attempts[index];
        for (int step = 0; step < 3; step++) {
            lock_and_note(self);
            jitter();
        }
        if (throwing && attempt <= 2)
            throw attempt;
    }
};

template <int index> static int maker()
{
    static thing one(index);
    return one.maker;
}

template <int... indices> static int maker_of(int index, std::integer_sequence<int, indices...>)
{
    static int (*const table[])() = {maker<indices>...};
    return table[index]();
}

static int rounds;

static void *worker(void *argument)
{
    self = (int)(intptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        int index = (self * 3 + round) % 16;
        try {
            lock_and_note(20 + maker_of(index, std::make_integer_sequence<int, 16>()));
        } catch (int attempt) {
            lock_and_note(50 + attempt);
        }
    }
    return nullptr;
}

// THREADS ROUNDS plain|throw
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 48);
    throwing = is(word(argc, argv, 3, "plain"), "throw");
    crew(threads, worker);
    show("order", &order);
    for (int index = 0; index < 16; index++)
        printf("attempts %d %d\n", index, attempts[index]);
    return 0;
}
