// What libc's streams do to memory of their callers.
#include "twins.h"

static _Alignas(64) volatile char memory[256];
static FILE *input, *output;
static size_t length;
static int at;

static void *take(void *argument)
{
    must_be(fread((char *)memory, 1, length, input) == length); // race fread
    return argument;
}

static void *take_line(void *argument)
{
    must_be(fgets((char *)memory, (int)length, input) != NULL); // race fgets
    return argument;
}

static void *give(void *argument)
{
    must_be(fwrite((char *)memory, 1, length, output) == length); // race fwrite
    return argument;
}

static void *give_string(void *argument)
{
    must_be(fputs((char *)memory, output) >= 0); // race fputs
    return argument;
}

static void *byte(void *argument)
{
    memory[at] = 'y'; // race byte
    return argument;
}

// CASE inside|beside: the byte is one that the function accesses, or one that it does not.
int main(int argc, char **argv)
{
    static const struct twins cases[] = {
        {"fread", take, byte},
        {"fgets", take_line, byte},
        {"fwrite", give, byte},
        {"fputs", give_string, byte},
    };
    length = 91;
    at = is(word(argc, argv, 2, ""), "beside") ? (int)length + 1 : 0;
    memset((char *)memory, 'x', length);
    input = fopen("/etc/passwd", "r");
    output = fopen("/dev/null", "w");
    must_be(input != NULL && output != NULL && fputs("this makes the buffer\n", output) >= 0);
    run_chosen(cases);
    return 0;
}
