// What C++20 adds to atomics, each used rightly: none of it is a race, and what it guards is none.
#include "twins.h"
#include <atomic>
#include <barrier>
#include <latch>
#include <semaphore>

namespace {

volatile int shared;

std::barrier<> meeting(2);

// Both threads are there before one of them can spin at the meeting: whom it spins for is not recorded at this level, and
// a replay could make that one behind it.
struct start {
    pthread_barrier_t both;
    start() { pthread_barrier_init(&both, nullptr, 2); }
    void wait() { pthread_barrier_wait(&both); }
} start;

void *before_meeting(void *argument)
{
    start.wait();
    shared = 1;
    meeting.arrive_and_wait();
    return argument;
}

void *behind_meeting(void *argument)
{
    start.wait();
    meeting.arrive_and_wait();
    shared = shared + 1;
    return argument;
}

std::latch gate(1);

void *opener(void *argument)
{
    shared = 1;
    gate.count_down();
    return argument;
}

void *guest(void *argument)
{
    gate.wait();
    shared = shared + 1;
    return argument;
}

int plain;

void *storer(void *argument)
{
    shared = 1;
    std::atomic_ref<int>(plain).store(1, std::memory_order_release);
    return argument;
}

void *loader(void *argument)
{
    while (std::atomic_ref<int>(plain).load(std::memory_order_acquire) == 0)
        continue;
    shared = shared + 1;
    return argument;
}

std::binary_semaphore turn(0);

void *poster(void *argument)
{
    shared = 1;
    turn.release();
    return argument;
}

void *taker(void *argument)
{
    turn.acquire();
    shared = shared + 1;
    return argument;
}

std::atomic<int> state;

void *notifier(void *argument)
{
    shared = 1;
    state.store(1, std::memory_order_release);
    state.notify_one();
    return argument;
}

void *waiter(void *argument)
{
    state.wait(0, std::memory_order_acquire);
    shared = shared + 1;
    return argument;
}

// No instruction loads or stores it: libatomic does.
struct Wide {
    long first, second;
};
std::atomic<Wide> wide;

void *wide_storer(void *argument)
{
    shared = 1;
    wide.store(Wide{1, 2});
    return argument;
}

void *wide_loader(void *argument)
{
    while (wide.load().second == 0)
        continue;
    shared = shared + 1;
    return argument;
}

} // namespace

int main(int argc, char **argv)
{
    static const struct twins cases[] = {
        {"barrier", before_meeting, behind_meeting},
        {"latch", opener, guest},
        {"ref", storer, loader},
        {"semaphore", poster, taker},
        {"waiting", notifier, waiter},
        {"wide", wide_storer, wide_loader},
    };
    run_chosen(cases);
    return 0;
}
