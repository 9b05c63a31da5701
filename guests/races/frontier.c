// Two races in one run. What comes after the first one may be its consequence.
#include "twins.h"

static volatile int first, second, third;

static void *one(void *argument)
{
    first = 1; // race first_one
    return argument;
}

static void *other(void *argument)
{
    first = 2; // race first_other
    return argument;
}

static void *later_one(void *argument)
{
    second = 1; // race second_one
    return argument;
}

static void *later_other(void *argument)
{
    second = 2; // race second_other
    return argument;
}

// Neither race comes before the other.
static void *both_one(void *argument)
{
    if (argument == NULL)
        third = 1; // race third_one
    else
        second = 3; // race fourth_one
    return argument;
}

static void *both_other(void *argument)
{
    if (argument == NULL)
        third = 2; // race third_other
    else
        second = 4; // race fourth_other
    return argument;
}

int main(int argc, char **argv)
{
    const char *name = word(argc, argv, 1, "");
    if (is(name, "one_after_the_other")) {
        side_by_side(one, other, NULL);
        side_by_side(later_one, later_other, NULL);
    } else if (is(name, "independent")) {
        pthread_t threads[4];
        void *mark = &threads;
        must(pthread_create(&threads[0], NULL, both_one, NULL));
        must(pthread_create(&threads[1], NULL, both_other, NULL));
        must(pthread_create(&threads[2], NULL, both_one, mark));
        must(pthread_create(&threads[3], NULL, both_other, mark));
        for (int which = 0; which < 4; which++)
            must(pthread_join(threads[which], NULL));
    } else if (is(name, "joined")) {
        side_by_side(one, idle, NULL);
        side_by_side(other, idle, NULL);
    } else {
        return 98;
    }
    return 0;
}
