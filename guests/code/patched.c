// The first thread changes code that the others are running: a constant within a loop,
// and where a jump of five bytes goes, each by one aligned store.
//
// What runs and what is written at the same time are in a race by nature.
#include "code.h"
#include <stdatomic.h>

static unsigned char *loop;
static unsigned char *jump;
static int rounds;
static atomic_uint arrived;

// nop ×3; top: mov eax, 0; cmp eax, edi; jne top; ret
static const unsigned char waits[] = {0x90, 0x90, 0x90, 0xB8, 0, 0, 0, 0, 0x39, 0xF8, 0x75, 0xF7, 0xC3};

static void store(unsigned char *code, unsigned value)
{
    atomic_store((_Atomic unsigned *)(void *)code, value);
}

static void *worker(void *argument)
{
    unsigned where = 0;
    for (int round = 1; round <= rounds; round++) {
        must_be(call(loop, (unsigned)round) == (unsigned)round);
        // One of two functions; the jump changes as it likes.
        where = call(jump, 10);
        must_be(where == 11 || where == 12);
        atomic_fetch_add(&arrived, 1);
        while (atomic_load(&arrived) / (unsigned)(intptr_t)argument < (unsigned)round)
            sched_yield();
    }
    return NULL;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    unsigned threads = (unsigned)number(argc, argv, 1, 2);
    rounds = number(argc, argv, 2, 50);
    loop = map(PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    jump = map(PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1) + 3;
    memcpy(loop, waits, sizeof waits);
    // jmp to one of what stands 64 and 128 bytes behind it
    jump[0] = 0xE9;
    store(jump + 1, 64);
    encode(jump + 5 + 64, 1);
    encode(jump + 5 + 128, 2);
    pthread_t ids[MOST_THREADS];
    for (unsigned who = 0; who < threads; who++)
        must(pthread_create(&ids[who], NULL, worker, (void *)(intptr_t)threads));
    for (int round = 1; round <= rounds; round++) {
        store(loop + 4, (unsigned)round);
        while (atomic_load(&arrived) / threads < (unsigned)round) {
            store(jump + 1, 128);
            sched_yield();
            store(jump + 1, 64);
        }
    }
    for (unsigned who = 0; who < threads; who++)
        must(pthread_join(ids[who], NULL));
    puts("patched");
    return 0;
}
