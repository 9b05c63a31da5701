// Barriers: all arrivals come before all departures, of each round by itself.
#include "twins.h"

#define CROWD 5

static pthread_barrier_t both, all;
static volatile int shared, slots[CROWD];

static void meet(pthread_barrier_t *barrier)
{
    int error = pthread_barrier_wait(barrier);
    must_be(error == 0 || error == PTHREAD_BARRIER_SERIAL_THREAD);
}

static void *one_before(void *argument)
{
    shared = 1; // race before
    meet(&both);
    return argument;
}

static void *other_behind(void *argument)
{
    meet(&both);
    (void)shared;
    return argument;
}

static void *other_before(void *argument)
{
    (void)shared; // race also_before
    meet(&both);
    return argument;
}

// The second arrival of one thread may come before the first departure of the other.
static void *one_between(void *argument)
{
    meet(&both);
    shared = 1; // race between
    meet(&both);
    return argument;
}

static void *other_between(void *argument)
{
    meet(&both);
    shared = 2; // race also_between
    meet(&both);
    return argument;
}

// Round after round the location changes hands.
static void *even_rounds(void *argument)
{
    for (int round = 0; round < 10; round++) {
        if (round % 2 == 0)
            shared = round;
        meet(&both);
    }
    return argument;
}

static void *odd_rounds(void *argument)
{
    for (int round = 0; round < 10; round++) {
        if (round % 2 == 1)
            shared = round;
        meet(&both);
    }
    return argument;
}

// Everybody writes the own slot, everybody reads all of them one round later.
static void *member(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0; round < 3; round++) {
        slots[who] = round;
        meet(&all);
        for (int at = 0; at < CROWD; at++)
            (void)slots[at];
        meet(&all);
    }
    return argument;
}

// Without a second meeting, what a fast member writes for the next round is what slow ones still read in this one.
static void *forgetful_member(void *argument)
{
    int who = (int)(intptr_t)argument;
    meet(&all);
    if (who == 0)
        shared = 1; // race next_round
    else
        (void)shared; // race this_round
    return argument;
}

int main(int argc, char **argv)
{
    static const struct twins cases[] = {
        {"across", one_before, other_behind},
        {"same_round", one_before, other_before},
        {"reused", one_between, other_between},
        {"rounds", even_rounds, odd_rounds},
    };
    must(pthread_barrier_init(&both, NULL, 2));
    must(pthread_barrier_init(&all, NULL, CROWD));
    const char *name = word(argc, argv, 1, "");
    if (is(name, "crowd"))
        crew(CROWD, member);
    else if (is(name, "crowd_forgets"))
        crew(CROWD, forgetful_member);
    else
        run_chosen(cases);
    return 0;
}
