// Code that changes itself: the instruction right behind the one that writes, and
// what a loop decodes in front of itself.
#include "code.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;
static int rounds;

// mov [rip + 1], dil; mov eax, 0x100; ret: the byte is the low one of the constant.
static const unsigned char next[] = {0x40, 0x88, 0x3D, 0x01, 0, 0, 0, 0xB8, 0, 1, 0, 0, 0xC3};

// mov ecx, 9; lea rdx, [rip + 10]; top: xor byte [rdx + rcx - 1], 0x5A; dec ecx; jne top
static const unsigned char decoder[] = {0xB9, 9, 0, 0, 0, 0x48, 0x8D, 0x15, 9, 0, 0, 0,
                                        0x80, 0x74, 0x0A, 0xFF, 0x5A, 0xFF, 0xC9, 0x75, 0xF7};

static void *worker(void *argument)
{
    unsigned who = (unsigned)(intptr_t)argument;
    unsigned char *code = map(PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    for (int round = 0; round < rounds; round++) {
        unsigned value = (unsigned)round % 256;
        memcpy(code, next, sizeof next);
        must_be(call(code, value) == 0x100 + value);
        must_be(call(code, value + 1) == 0x100 + (value + 1) % 256);
        memcpy(code, decoder, sizeof decoder);
        encode(code + sizeof decoder, (unsigned)round);
        for (int byte = 0; byte < CODE_BYTES; byte++)
            code[sizeof decoder + (size_t)byte] ^= 0x5A;
        must_be(call(code, who) == (unsigned)round + who);
        must(pthread_mutex_lock(&mutex));
        note(&transcript, who);
        must(pthread_mutex_unlock(&mutex));
        jitter();
    }
    return NULL;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 2);
    rounds = number(argc, argv, 2, 50);
    crew(threads, worker);
    show("itself", &transcript);
    return 0;
}
