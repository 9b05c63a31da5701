// Accesses next to each other, and accesses that overlap in one byte.
#include "twins.h"

static struct {
    _Alignas(64) volatile unsigned char bytes[64];
    volatile uint16_t shorts[32];
    volatile uint32_t words[64];
    struct {
        volatile unsigned low : 4, high : 4;
        volatile unsigned : 0;
        volatile unsigned alone : 8;
    } fields;
} shared;

static void *byte_3(void *argument)
{
    shared.bytes[3] = 1; // race byte_3
    return argument;
}

static void *byte_4(void *argument)
{
    shared.bytes[4] = 1; // race byte_4
    return argument;
}

static void *read_of_byte_3(void *argument)
{
    (void)shared.bytes[3]; // race read_of_byte_3
    return argument;
}

static void *short_at_2(void *argument)
{
    *(volatile uint16_t *)&shared.bytes[2] = 1; // race short_at_2
    return argument;
}

static void *short_at_4(void *argument)
{
    *(volatile uint16_t *)&shared.bytes[4] = 1;
    return argument;
}

static void *word_at_0(void *argument)
{
    *(volatile uint32_t *)&shared.bytes[0] = 1; // race word_at_0
    return argument;
}

static void *long_at_0(void *argument)
{
    *(volatile uint64_t *)&shared.bytes[0] = 1; // race long_at_0
    return argument;
}

// As a radix sort writes its buckets: threads alternate word by word.
static void *even_words(void *argument)
{
    for (int at = 0; at < 64; at += 2)
        shared.words[at] = 1;
    return argument;
}

static void *odd_words(void *argument)
{
    for (int at = 1; at < 64; at += 2)
        shared.words[at] = 1;
    return argument;
}

static void *even_bytes(void *argument)
{
    for (int at = 0; at < 64; at += 2)
        shared.bytes[at] = 1;
    return argument;
}

static void *odd_bytes(void *argument)
{
    for (int at = 1; at < 64; at += 2)
        shared.bytes[at] = 1;
    return argument;
}

// One byte too far.
static void *odd_bytes_and_the_next(void *argument)
{
    for (int at = 1; at < 64; at += 2)
        shared.bytes[at] = 1;
    shared.bytes[32] = 1; // race one_too_far
    return argument;
}

static void *only_byte_32(void *argument)
{
    for (int at = 0; at < 32; at += 2)
        shared.bytes[at] = 1;
    shared.bytes[32] = 1; // race byte_32
    return argument;
}

static void *even_shorts(void *argument)
{
    for (int at = 0; at < 32; at += 2)
        shared.shorts[at] = 1;
    return argument;
}

static void *odd_shorts(void *argument)
{
    for (int at = 1; at < 32; at += 2)
        shared.shorts[at] = 1;
    return argument;
}

// Bit fields that are neighbours are one location, read and written as a whole.
static void *low_field(void *argument)
{
    shared.fields.low = 1; // race low_field
    return argument;
}

static void *high_field(void *argument)
{
    shared.fields.high = 1; // race high_field
    return argument;
}

static void *field_alone(void *argument)
{
    shared.fields.alone = 1;
    return argument;
}

int main(int argc, char **argv)
{
    static const struct twins cases[] = {
        {"bytes", byte_3, byte_4},
        {"same_byte", byte_3, read_of_byte_3},
        {"reads", read_of_byte_3, read_of_byte_3},
        {"short_over_byte", byte_3, short_at_2},
        {"short_beside_byte", byte_3, short_at_4},
        {"shorts_beside", short_at_2, short_at_4},
        {"word_over_short", word_at_0, short_at_2},
        {"word_beside_byte", word_at_0, byte_4},
        {"long_over_byte", long_at_0, byte_4},
        {"words", even_words, odd_words},
        {"alternate_bytes", even_bytes, odd_bytes},
        {"one_too_far", only_byte_32, odd_bytes_and_the_next},
        {"alternate_shorts", even_shorts, odd_shorts},
        {"fields_together", low_field, high_field},
        {"fields_apart", low_field, field_alone},
    };
    run_chosen(cases);
    return 0;
}
