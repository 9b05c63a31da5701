// What the C++ library does to texts of its callers by libc's functions.
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
extern "C" {
#include "twins.h"
}

#define END 40

alignas(64) static char target[256];
static int at;
static volatile long found;
static std::string like(END, 'x');

static void *construct(void *argument)
{
    std::string made(target); // race construct
    found = made[0];
    return argument;
}

static void *assign(void *argument)
{
    std::string made;
    made = target; // race assign
    found = made[0];
    return argument;
}

static void *compare(void *argument)
{
    found = like.compare(target); // race compare
    return argument;
}

static void *search(void *argument)
{
    found = (long)like.find(target); // race search
    return argument;
}

static void *print(void *argument)
{
    std::ostringstream stream;
    stream << static_cast<const char *>(target); // race print
    found = (long)stream.str().size();
    return argument;
}

static void *number(void *argument)
{
    found = std::atol(target); // race number
    return argument;
}

static void *byte(void *argument)
{
    const_cast<volatile char *>(target)[at] = 'y'; // race byte
    return argument;
}

// CASE inside|beside: the byte is the last one that is accessed, or the one behind it.
int main(int argc, char **argv)
{
    static const struct twins cases[] = {
        {"construct", construct, byte}, {"assign", assign, byte}, {"compare", compare, byte},
        {"search", search, byte},       {"print", print, byte},   {"number", number, byte},
    };
    std::memset(target, is(word(argc, argv, 1, ""), "number") ? '0' : 'x', END);
    at = END + is(word(argc, argv, 2, ""), "beside");
    run_chosen(cases);
    return 0;
}
