// Reading a program.
//
// Apart from running it because tokens are counted without running anything.
#ifndef TEXT_H
#define TEXT_H

#include "objects.h"

static int number_at(const char **at)
{
    int value = 0;
    while (**at >= '0' && **at <= '9')
        value = value * 10 + *(*at)++ - '0';
    return value;
}

struct operation {
    char what;
    int which, micros;
    const char *body;
};

static struct operation read_operation(const char **at)
{
    struct operation it = {.what = *(*at)++};
    it.which = number_at(at);
    if (**at == ',') {
        ++*at;
        it.micros = number_at(at);
    }
    if (**at == '{')
        it.body = ++*at;
    return it;
}

// Behind the brace that closes the body.
static const char *skip(const char *body)
{
    for (int depth = 1; depth > 0; body++)
        depth += (*body == '{') - (*body == '}');
    return body;
}

// Tokens that a thread takes at most, without those of other threads.
static void count_needs(const char *at, int times, int needs[CONDITIONS])
{
    while (*at != 0 && *at != '}') {
        if (*at == '{') {
            // Another member of a group.
            at = skip(at + 1);
            continue;
        }
        struct operation it = read_operation(&at);
        if (it.what == 'C')
            needs[it.which] += times;
        else if (it.what == 'g')
            needs[2] += times;
        if (it.body == NULL)
            continue;
        if (strchr("TdBXA", it.what) == NULL)
            count_needs(it.body, it.what == 'I' ? times * it.which : times, needs);
        at = skip(it.body);
    }
}

#endif
