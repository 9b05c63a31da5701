// Wide and odd instructions: each accesses exactly the bytes that it is documented to access. The byte of the other
// thread is the last one inside or the first one outside.
#include "twins.h"
#include <immintrin.h>

static _Alignas(64) volatile unsigned char shared[256];
static int at;

static unsigned char *area(void)
{
    return (unsigned char *)shared;
}

static void *byte(void *argument)
{
    shared[at] = 1; // race byte
    return argument;
}

static void *sse2_store(void *argument)
{
    _mm_storeu_si128((__m128i_u *)(area() + 5), _mm_set1_epi8(2)); // race sse2_store
    return argument;
}

static void *sse2_load(void *argument)
{
    __asm__ volatile("movdqu 5(%0), %%xmm0" : : "r"(shared) : "xmm0", "memory"); // race sse2_load
    return argument;
}

// Half of a register.
static void *half_store(void *argument)
{
    __asm__ volatile("movhps %%xmm0, (%0)" : : "r"(shared) : "memory"); // race half_store
    return argument;
}

static void *streaming_store(void *argument)
{
    _mm_stream_si128((__m128i *)area(), _mm_set1_epi8(2)); // race streaming_store
    return argument;
}

static void *streaming_word(void *argument)
{
    _mm_stream_si32((int *)area(), 2); // race streaming_word
    return argument;
}

// Bytes 0 to 6 of 16.
static void *masked_sse2(void *argument)
{
    __m128i mask = _mm_set_epi8(0, 0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1);
    _mm_maskmoveu_si128(_mm_set1_epi8(2), mask, (char *)area()); // race masked_sse2
    return argument;
}

// As an operand of arithmetic.
static void *operand(void *argument)
{
    __asm__ volatile("paddb (%0), %%xmm0" : : "r"(shared) : "xmm0", "memory"); // race operand
    return argument;
}

// Ten bytes.
static void *x87_store(void *argument)
{
    __asm__ volatile("fld1\n\tfstpt (%0)" : : "r"(shared) : "memory", "st"); // race x87_store
    return argument;
}

static void *string_store(void *argument)
{
    void *to = area();
    unsigned long count = 100;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(2) : "memory"); // race string_store
    return argument;
}

static void *string_store_of_words(void *argument)
{
    void *to = area();
    unsigned long count = 10;
    __asm__ volatile("rep stosl" : "+D"(to), "+c"(count) : "a"(2) : "memory"); // race string_store_of_words
    return argument;
}

// From its last byte to its first one.
static void *string_copy_backwards(void *argument)
{
    void *to = area() + 49, *from = (char[50]){0} + 49;
    unsigned long count = 50;
    __asm__ volatile("std\n\trep movsb\n\tcld" : "+D"(to), "+S"(from), "+c"(count) : : "memory"); // race backwards
    return argument;
}

static void *string_of_none(void *argument)
{
    void *to = area();
    unsigned long count = 0;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(2) : "memory");
    return argument;
}

// Ends behind the first byte that differs, the fourth.
static void *string_compare(void *argument)
{
    void *one = area(), *other = (char[16]){0, 0, 0, 1};
    unsigned long count = 16;
    __asm__ volatile("cmp %0, %0\n\trepe cmpsb" : "+D"(one), "+S"(other), "+c"(count) : : "memory", "cc"); // race cmps
    return argument;
}

__attribute__((target("avx"))) static void *avx_store(void *argument)
{
    _mm256_storeu_si256((__m256i_u *)(area() + 50), _mm256_set1_epi8(2)); // race avx_store
    return argument;
}

// Words 0, 1 and 6 of 8.
__attribute__((target("avx2"))) static void *masked_avx2(void *argument)
{
    __m256i mask = _mm256_set_epi32(0, -1, 0, 0, 0, 0, -1, -1);
    _mm256_maskstore_epi32((int *)area(), mask, _mm256_set1_epi32(2)); // race masked_avx2
    return argument;
}

__attribute__((target("avx2"))) static void *gather(void *argument)
{
    __m128i indices = _mm_set_epi32(30, 20, 10, 0);
    __m128i found = _mm_i32gather_epi32((const int *)area(), indices, 4); // race gather
    __asm__ volatile("" : : "x"(found));
    return argument;
}

// One element of four, and no access where the mask is clear.
__attribute__((target("avx2"))) static void *masked_gather(void *argument)
{
    __m128i indices = _mm_set_epi32(30, 20, 10, 0), mask = _mm_set_epi32(0, -1, 0, 0);
    __m128i found = _mm_mask_i32gather_epi32(mask, (const int *)area(), indices, mask, 4); // race masked_gather
    __asm__ volatile("" : : "x"(found));
    return argument;
}

__attribute__((target("avx512f"))) static void *avx512_store(void *argument)
{
    _mm512_storeu_si512(area() + 10, _mm512_set1_epi32(2)); // race avx512_store
    return argument;
}

__attribute__((target("avx512f,avx512bw"))) static void *masked_avx512(void *argument)
{
    _mm512_mask_storeu_epi8(area(), 0x00000000000003ffu, _mm512_set1_epi8(2)); // race masked_avx512
    return argument;
}

__attribute__((target("avx512f"))) static void *scatter(void *argument)
{
    __m512i indices = _mm512_set_epi32(60, 56, 52, 48, 44, 40, 36, 32, 28, 24, 20, 16, 12, 8, 4, 0);
    _mm512_mask_i32scatter_epi32((int *)area(), 0x8001, indices, _mm512_set1_epi32(2), 4); // race scatter
    return argument;
}

// Six words, put together without gaps.
__attribute__((target("avx512f"))) static void *compressed(void *argument)
{
    _mm512_mask_compressstoreu_epi32(area(), 0x5154, _mm512_set1_epi32(2)); // race compressed
    return argument;
}

__attribute__((target("avx512f"))) static void *broadcast(void *argument)
{
    __asm__ volatile("vpaddd (%0)%{1to16%}, %%zmm0, %%zmm0" : : "r"(shared) : "xmm0", "memory"); // race broadcast
    return argument;
}

// CASE BYTE: where the other thread writes.
int main(int argc, char **argv)
{
    static const struct twins cases[] = {
        {"sse2_store", sse2_store, byte},
        {"sse2_load", sse2_load, byte},
        {"half_store", half_store, byte},
        {"streaming_store", streaming_store, byte},
        {"streaming_word", streaming_word, byte},
        {"masked_sse2", masked_sse2, byte},
        {"operand", operand, byte},
        {"x87_store", x87_store, byte},
        {"string_store", string_store, byte},
        {"string_store_of_words", string_store_of_words, byte},
        {"string_copy_backwards", string_copy_backwards, byte},
        {"string_of_none", string_of_none, byte},
        {"string_compare", string_compare, byte},
        {"avx_store", avx_store, byte},
        {"masked_avx2", masked_avx2, byte},
        {"gather", gather, byte},
        {"masked_gather", masked_gather, byte},
        {"avx512_store", avx512_store, byte},
        {"masked_avx512", masked_avx512, byte},
        {"scatter", scatter, byte},
        {"compressed", compressed, byte},
        {"broadcast", broadcast, byte},
    };
    at = number(argc, argv, 2, 0);
    run_chosen(cases);
    return 0;
}
