// Accesses at odd addresses, across lines of 64 bytes and across pages.
#include "twins.h"

struct __attribute__((packed)) word {
    volatile uint64_t value;
};

static _Alignas(4096) volatile unsigned char shared[2 * 4096];

static void *over_line(void *argument)
{
    ((struct word *)&shared[60])->value = 1; // race over_line
    return argument;
}

static void *last_of_line(void *argument)
{
    shared[63] = 1; // race last_of_line
    return argument;
}

static void *first_of_next_line(void *argument)
{
    shared[64] = 1; // race first_of_next_line
    return argument;
}

static void *last_inside(void *argument)
{
    shared[67] = 1; // race last_inside
    return argument;
}

static void *first_outside(void *argument)
{
    shared[68] = 1;
    return argument;
}

static void *before_it(void *argument)
{
    shared[59] = 1;
    return argument;
}

static void *odd(void *argument)
{
    ((struct word *)&shared[13])->value = 1; // race odd
    return argument;
}

static void *odd_and_overlapping(void *argument)
{
    ((struct word *)&shared[20])->value = 1; // race odd_and_overlapping
    return argument;
}

static void *odd_and_beside(void *argument)
{
    ((struct word *)&shared[21])->value = 1;
    return argument;
}

static void *over_page(void *argument)
{
    (void)((struct word *)&shared[4093])->value; // race over_page
    return argument;
}

static void *on_next_page(void *argument)
{
    shared[4100] = 1; // race on_next_page
    return argument;
}

static void *further_on_next_page(void *argument)
{
    shared[4101] = 1;
    return argument;
}

int main(int argc, char **argv)
{
    static const struct twins cases[] = {
        {"last_of_line", over_line, last_of_line},
        {"first_of_next_line", over_line, first_of_next_line},
        {"last_inside", over_line, last_inside},
        {"first_outside", over_line, first_outside},
        {"before_it", over_line, before_it},
        {"odd_overlapping", odd, odd_and_overlapping},
        {"odd_beside", odd, odd_and_beside},
        {"next_page", over_page, on_next_page},
        {"next_page_outside", over_page, further_on_next_page},
    };
    run_chosen(cases);
    return 0;
}
