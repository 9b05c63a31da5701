// Functions that libc calls: their accesses are the program's.
#include "twins.h"
#include <search.h>

static volatile int shared;

static int compare(const void *one, const void *other)
{
    shared = 1; // race comparing
    return *(const int *)one - *(const int *)other;
}

static void *sorting(void *argument)
{
    int own[2] = {2, 1};
    qsort(own, 2, sizeof *own, compare);
    return argument;
}

static void *beside(void *argument)
{
    shared = 2; // race beside
    return argument;
}

static int numbers[2] = {2, 1};

__attribute__((noinline)) static int plainly(const void *one, const void *other)
{
    return *(const int *)one - *(const int *)other; // race compared
}

static void *sorting_shared(void *argument)
{
    must_be(bsearch(&(int){3}, numbers, 1, sizeof *numbers, plainly) == NULL);
    return argument;
}

static void *writing_shared(void *argument)
{
    *(volatile int *)&numbers[0] = 4; // race written
    return argument;
}

// Enough for the sort to move them by copying: that covers what it compares, and is the program's doing as well.
static int many[64];

static void *sorting_many(void *argument)
{
    qsort(many, 64, sizeof *many, plainly); // race sorts
    return argument;
}

static void *writing_one_of_many(void *argument)
{
    // So long that the sort is over: in its midst what it does next could be a read.
    for (volatile int step = 0; step < 3000000; step++)
        ;
    *(volatile int *)&many[5] = 9; // race sorted
    return argument;
}

static void *writing_unsearched(void *argument)
{
    *(volatile int *)&numbers[1] = 4;
    return argument;
}

int main(int argc, char **argv)
{
    static const struct twins cases[] = {
        {"comparison", sorting, beside},
        {"compared", sorting_shared, writing_shared},
        {"sorted", sorting_many, writing_one_of_many},
        {"not_compared", sorting_shared, writing_unsearched},
    };
    run_chosen(cases);
    return 0;
}
