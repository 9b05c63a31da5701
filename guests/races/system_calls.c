// Buffers that the kernel reads and writes on a thread's behalf.
#include "twins.h"
#include <fcntl.h>
#include <sys/uio.h>

static int zero, null;
static char buffer[256], second[256];
static volatile int at;

static void *reading(void *argument)
{
    must_be(read(zero, buffer, 100) == 100); // race read
    return argument;
}

static void *writing(void *argument)
{
    must_be(write(null, buffer, 100) == 100); // race write
    return argument;
}

static void *scattering(void *argument)
{
    struct iovec parts[] = {{second, 10}, {buffer, 100}};
    must_be(readv(zero, parts, 2) == 110); // race readv
    return argument;
}

static void *byte(void *argument)
{
    ((volatile char *)buffer)[at] = 1; // race byte
    return argument;
}

static void *looking(void *argument)
{
    (void)((volatile char *)buffer)[at]; // race looking
    return argument;
}

// CASE inside|beside
int main(int argc, char **argv)
{
    static const struct twins cases[] = {
        {"read", reading, byte},
        {"read_looking", reading, looking},
        {"write", writing, byte},
        {"write_looking", writing, looking},
        {"readv", scattering, byte},
    };
    zero = open("/dev/zero", O_RDONLY);
    null = open("/dev/null", O_WRONLY);
    must_be(zero >= 0 && null >= 0);
    at = is(word(argc, argv, 2, ""), "beside") ? 100 : 99;
    run_chosen(cases);
    return 0;
}
