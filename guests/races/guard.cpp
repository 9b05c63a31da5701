// Initialisers that run once in C++: the guard of a function's static variable, whose fast path is a plain load in the
// program itself, and std::call_once.
#include "twins.h"
#include <mutex>
#include <stdexcept>

namespace {

volatile int shared;
std::once_flag flag;
std::once_flag stubborn;
volatile int attempts;

struct Thing {
    volatile int value;

    __attribute__((noinline)) Thing()
    {
        value = 1;
        shared = 1; // race constructed
    }
};

__attribute__((noinline)) Thing &the_thing()
{
    static Thing thing;
    return thing;
}

void *user(void *argument)
{
    for (int times = 0; times < 3; times++)
        (void)the_thing().value;
    (void)shared;
    return argument;
}

void *maker(void *argument)
{
    the_thing();
    return argument;
}

void *passer_by(void *argument)
{
    (void)shared; // race passed_by
    return argument;
}

// The guard orders the constructor only.
void *one_behind(void *argument)
{
    the_thing().value = 2; // race one_behind
    return argument;
}

void *other_behind(void *argument)
{
    the_thing().value = 3; // race other_behind
    return argument;
}

void *caller(void *argument)
{
    std::call_once(flag, [] { shared = 2; });
    (void)shared;
    return argument;
}

void *only_caller(void *argument)
{
    std::call_once(flag, [] {
        shared = 2; // race called
    });
    return argument;
}

// The first attempt throws: the next one follows it.
void *thrower(void *argument)
{
    try {
        std::call_once(stubborn, [] {
            attempts = attempts + 1;
            if (attempts == 1)
                throw std::runtime_error("not yet");
        });
    } catch (const std::runtime_error &) {
        std::call_once(stubborn, [] { attempts = attempts + 1; });
    }
    (void)attempts;
    return argument;
}

} // namespace

int main(int argc, char **argv)
{
    static const struct twins cases[] = {
        {"used", user, user},
        {"passed_by", maker, passer_by},
        {"behind", one_behind, other_behind},
        {"call_once", caller, caller},
        {"call_once_passed_by", only_caller, passer_by},
        {"thrown", thrower, thrower},
    };
    run_chosen(cases);
    return 0;
}
