// std::atomic, std::shared_ptr: what the header files make of them is inlined into the program.
#include "twins.h"
#include <atomic>
#include <memory>

namespace {

std::atomic<int> flag;
std::atomic<long> counter;
std::atomic_flag busy = ATOMIC_FLAG_INIT;
volatile int shared;

struct Thing {
    volatile int slots[2] = {0, 0};
    volatile int both = 0;

    ~Thing()
    {
        slots[0] = 0;
        slots[1] = 0;
    }
};

std::shared_ptr<Thing> things[2];

void *releaser(void *argument)
{
    shared = 1; // race released_value
    flag.store(1, std::memory_order_release); // race release
    return argument;
}

void *acquirer(void *argument)
{
    while (flag.load(std::memory_order_acquire) == 0) // race acquire
        continue;
    (void)int(shared); // race acquired_value
    return argument;
}

void *storer(void *argument)
{
    shared = 1;
    flag = 1;
    return argument;
}

void *loader(void *argument)
{
    while (flag == 0)
        continue;
    (void)int(shared);
    return argument;
}

void *counting(void *argument)
{
    for (int round = 0; round < 200; round++)
        counter++;
    return argument;
}

void *with_flag(void *argument)
{
    for (int round = 0; round < 200; round++) {
        while (busy.test_and_set(std::memory_order_acquire))
            __builtin_ia32_pause();
        shared = round;
        busy.clear(std::memory_order_release);
    }
    return argument;
}

// Each thread its own pointer to the same thing: whoever lets go last destroys it.
void *one_owner(void *argument)
{
    things[0]->slots[0] = 1;
    std::shared_ptr<Thing> copy = things[0];
    things[0].reset();
    copy->slots[0] = 2;
    return argument;
}

void *other_owner(void *argument)
{
    things[1]->slots[1] = 1;
    std::shared_ptr<Thing> copy = things[1];
    things[1].reset();
    copy->slots[1] = 2;
    return argument;
}

// The count protects the thing's life, not its contents. Each keeps it until it was accessed by both.
void *one_careless(void *argument)
{
    std::shared_ptr<Thing> copy = things[0];
    copy->both = 1; // race one_careless
    return argument;
}

void *other_careless(void *argument)
{
    things[1]->both = 2; // race other_careless
    return argument;
}

} // namespace

int main(int argc, char **argv)
{
    static const struct twins cases[] = {
        {"release", releaser, acquirer},
        {"exchange", storer, loader},
        {"counter", counting, counting},
        {"flag", with_flag, with_flag},
        {"shared_ptr", one_owner, other_owner},
        {"shared_ptr_contents", one_careless, other_careless},
    };
    things[0] = std::make_shared<Thing>();
    things[1] = things[0];
    run_chosen(cases);
    return 0;
}
