// Memory and string functions of libc: they access what they are documented to access, however wide their vectors are.
// Lengths come from main so that the compiler leaves the calls in place.
#include "twins.h"

#define BIG (1 << 20)

static _Alignas(64) volatile char target[256];
static _Alignas(64) char source[256];
static char big_target[BIG], big_source[BIG];
static char *anywhere = source;
static size_t length, big;
static int at;
// Only one of the threads writes it.
static volatile long found;

static char *out(void)
{
    return (char *)target;
}

static void *copy(void *argument)
{
    memcpy(out(), source, length); // race memcpy
    return argument;
}

static void *move(void *argument)
{
    memmove(out(), anywhere, length); // race memmove
    return argument;
}

static void *fill(void *argument)
{
    memset(out(), 1, length); // race memset
    return argument;
}

static void *copy_string(void *argument)
{
    strcpy(out(), source); // race strcpy
    return argument;
}

static void *copy_some(void *argument)
{
    strncpy(out(), source + length - 1, length); // race strncpy
    return argument;
}

static void *print_string(void *argument)
{
    sprintf(out(), "%.*s", (int)length, source); // race sprintf
    return argument;
}

static void *compare(void *argument)
{
    found = memcmp(out(), source, length); // race memcmp
    return argument;
}

// The string in the target ends at its last byte inside.
static void *measure(void *argument)
{
    found = (long)strlen(out()); // race strlen
    return argument;
}

static void *find(void *argument)
{
    found = strchr(out(), '#') != NULL; // race strchr
    return argument;
}

static void *from(void *argument)
{
    memcpy(source, out(), length); // race copied_from
    return argument;
}

static void *copy_much(void *argument)
{
    memcpy(big_target, big_source, big); // race big_memcpy
    return argument;
}

static void *byte(void *argument)
{
    target[at] = 1; // race byte
    return argument;
}

static void *big_byte(void *argument)
{
    *(volatile char *)&big_target[at] = 1; // race big_byte
    return argument;
}

// CASE inside|beside: the byte is the last one that the function accesses, or the one behind it.
int main(int argc, char **argv)
{
    static const struct twins cases[] = {
        {"memcpy", copy, byte},
        {"memmove", move, byte},
        {"memset", fill, byte},
        {"strcpy", copy_string, byte},
        {"strncpy", copy_some, byte},
        {"sprintf", print_string, byte},
        {"memcmp", compare, byte},
        {"strlen", measure, byte},
        {"strchr", find, byte},
        {"from", from, byte},
        {"big_memcpy", copy_much, big_byte},
    };
    const char *name = word(argc, argv, 1, "");
    int beside = is(word(argc, argv, 2, ""), "beside");
    // A string of so many bytes with its end.
    length = 91;
    memset(source, 'x', length - 1);
    big = BIG - 1;
    anywhere = source + (argc < 2);
    at = (is(name, "big_memcpy") ? (int)big - 1 : (int)length - 1) + beside;
    if (is(name, "memcmp") || is(name, "strlen") || is(name, "strchr"))
        memcpy(out(), source, length);
    run_chosen(cases);
    return 0;
}
