// Exceptions that pass through locks.
#include "twins.h"
#include <mutex>
#include <stdexcept>

namespace {

std::mutex mutex;
std::recursive_mutex recursive;
volatile int shared;
sem_t first;

__attribute__((noinline)) void throw_with_lock(int value)
{
    std::lock_guard<std::mutex> guard(mutex);
    shared = value;
    throw std::runtime_error("with lock");
}

void *thrower(void *argument)
{
    for (int round = 0; round < 20; round++) {
        try {
            throw_with_lock(round);
        } catch (const std::runtime_error &) {
            continue;
        }
    }
    return argument;
}

// The handler runs behind the unlock.
void *one_catching(void *argument)
{
    try {
        std::lock_guard<std::mutex> guard(mutex);
        throw std::runtime_error("out of the lock");
    } catch (const std::runtime_error &) {
        post(&first);
        shared = 1; // race caught
    }
    return argument;
}

void *other_locking(void *argument)
{
    await(&first);
    std::lock_guard<std::mutex> guard(mutex);
    shared = 2; // race locked
    return argument;
}

// Destructors on the way run while the lock is still held.
struct Writer {
    ~Writer()
    {
        shared = 3;
    }
};

void *unwinder(void *argument)
{
    try {
        std::lock_guard<std::recursive_mutex> outer(recursive);
        std::lock_guard<std::recursive_mutex> inner(recursive);
        Writer writer;
        throw 1;
    } catch (int) {
    }
    return argument;
}

} // namespace

int main(int argc, char **argv)
{
    static const struct twins cases[] = {
        {"inside", thrower, thrower},
        {"caught", one_catching, other_locking},
        {"on_the_way", unwinder, unwinder},
    };
    must_be(sem_init(&first, 0, 0) == 0);
    run_chosen(cases);
    return 0;
}
