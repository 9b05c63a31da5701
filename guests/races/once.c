// pthread_once: whoever called it sees what the initialiser did, nobody else.
#include "twins.h"

static pthread_once_t control = PTHREAD_ONCE_INIT;
static volatile int shared;

static void initialise(void)
{
    shared = 1; // race initialiser
}

static void *asking(void *argument)
{
    must(pthread_once(&control, initialise));
    (void)shared;
    return argument;
}

static void *not_asking(void *argument)
{
    (void)shared; // race not_asking
    return argument;
}

static void *calling(void *argument)
{
    must(pthread_once(&control, initialise));
    return argument;
}

// Both behind it: it orders the initialiser with them, not them among themselves.
static void *one_behind(void *argument)
{
    must(pthread_once(&control, initialise));
    shared = 2; // race one_behind
    return argument;
}

static void *other_behind(void *argument)
{
    must(pthread_once(&control, initialise));
    shared = 3; // race other_behind
    return argument;
}

int main(int argc, char **argv)
{
    static const struct twins cases[] = {
        {"asked", asking, asking},
        {"not_asked", calling, not_asking},
        {"behind", one_behind, other_behind},
    };
    run_chosen(cases);
    return 0;
}
