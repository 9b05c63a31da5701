// The program that images.c starts.
#include "twins.h"

static volatile long before[3];
static volatile long apart[3];

static void *reading(void *argument)
{
    return apart[1] ? argument : NULL; // race childs_read
}

static void *nothing(void *argument)
{
    before[0] = 1;
    return argument;
}

static void *writing(void *argument)
{
    apart[1] = 5; // race childs_write
    return argument;
}

int main(int argc, char **argv)
{
    const char *which = word(argc, argv, 1, "neither");
    side_by_side(is(which, "child") || is(which, "both") ? reading : nothing, writing, NULL);
    return 0;
}
