// What programs in C hand over by: variables that are atomic or volatile by their types, in globals,
// arrays, on the heap, behind pointers and on a stack, and plain ones that locked instructions
// change elsewhere, or that functions access which call themselves atomic. Nearly all of their loads and
// stores are plain instructions; that they count only debug information tells.
#include "../transcript.h"
#include <signal.h>
#include <stdatomic.h>

enum { RING = 16, CREW_MAX = 16 };

struct ticket {
    unsigned next, now; // plain: `next` is drawn by a locked instruction, and `now` by another one once
};

struct ring {
    struct {
        _Atomic unsigned read, written;
    } ends;
    unsigned room[RING];
};

struct sequence {
    volatile unsigned count;
    volatile unsigned parts[2];
};

struct node {
    unsigned long value;
    struct node *next;
};

struct shared {
    struct ticket *ticket;
    struct ring *ring;
    struct sequence sequence;
    _Atomic(struct node *) top;
};

typedef struct {
    volatile sig_atomic_t is_ready;
    unsigned long work;
} desk;

static unsigned halfway; // plain, and no locked instruction changes it
static volatile int go;
static atomic_bool is_over;
static atomic_flag taken = ATOMIC_FLAG_INIT;
static desk desks[CREW_MAX];
static struct transcript by_ticket, by_ring, by_flag;
static unsigned long rounds;
static struct shared *all;

static inline unsigned atomic_load_u(const unsigned *from)
{
    return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}

static inline void atomic_store_u(unsigned *to, unsigned value)
{
    __atomic_store_n(to, value, __ATOMIC_RELEASE);
}

static void lock(struct ticket *ticket)
{
    unsigned own = __atomic_fetch_add(&ticket->next, 1, __ATOMIC_RELAXED);
    while (__atomic_load_n(&ticket->now, __ATOMIC_ACQUIRE) != own)
        sched_yield();
}

static void unlock(struct ticket *ticket)
{
    __atomic_store_n(&ticket->now, ticket->now + 1, __ATOMIC_RELEASE);
}

// What makes the word one of those by which threads hand over.
static void skip(struct ticket *ticket)
{
    __sync_fetch_and_add(&ticket->now, 1);
}

static int push(struct ring *ring, unsigned value)
{
    unsigned at = atomic_load_explicit(&ring->ends.written, memory_order_relaxed);
    if (at - atomic_load_explicit(&ring->ends.read, memory_order_acquire) == RING)
        return 0;
    ring->room[at % RING] = value;
    atomic_store_explicit(&ring->ends.written, at + 1, memory_order_release);
    return 1;
}

static int pop(struct ring *ring, unsigned *value)
{
    unsigned at = atomic_load_explicit(&ring->ends.read, memory_order_relaxed);
    if (at == atomic_load_explicit(&ring->ends.written, memory_order_acquire))
        return 0;
    *value = ring->room[at % RING];
    atomic_store_explicit(&ring->ends.read, at + 1, memory_order_release);
    return 1;
}

static void set(struct sequence *sequence, unsigned value)
{
    sequence->count++;
    __atomic_thread_fence(__ATOMIC_RELEASE);
    for (int part = 0; part < 2; part++)
        sequence->parts[part] = value * (unsigned)(part + 1);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    sequence->count++;
}

static unsigned get(struct sequence *sequence)
{
    for (;;) {
        unsigned before = sequence->count, sum = sequence->parts[0] + sequence->parts[1];
        if (before % 2 == 0 && sequence->count == before)
            return sum;
        sched_yield();
    }
}

static void stack(_Atomic(struct node *) *top, unsigned long value)
{
    struct node *own = malloc(sizeof *own);
    own->value = value;
    own->next = atomic_load_explicit(top, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(top, &own->next, own)) {
    }
}

static void *work(void *argument)
{
    unsigned who = (unsigned)(uintptr_t)argument;
    while (!go)
        sched_yield();
    for (unsigned long round = 0; round < rounds; round++) {
        lock(all->ticket);
        note(&by_ticket, who);
        unlock(all->ticket);
        while (atomic_flag_test_and_set_explicit(&taken, memory_order_acquire))
            sched_yield();
        note(&by_flag, who);
        atomic_flag_clear_explicit(&taken, memory_order_release);
        stack(&all->top, who * rounds + round);
        desks[who].work = fold(desks[who].work, get(&all->sequence));
    }
    desks[who].is_ready = 1;
    return NULL;
}

static void *produce(void *argument)
{
    struct shared *shared = argument;
    for (unsigned round = 0; round < rounds; round++) {
        while (!push(shared->ring, round))
            sched_yield();
        if (round == rounds / 2)
            atomic_store_u(&halfway, 1000);
        set(&shared->sequence, round);
    }
    return NULL;
}

static void *consume(void *argument)
{
    struct ring *ring = ((struct shared *)argument)->ring;
    unsigned value = 0, in_vain = 0;
    for (unsigned round = 0; round < rounds;) {
        if (pop(ring, &value)) {
            note(&by_ring, value + in_vain + atomic_load_u(&halfway));
            round++;
        } else {
            in_vain++;
            sched_yield();
        }
    }
    return NULL;
}

struct watch {
    volatile unsigned *beats;
    atomic_ulong *seen;
};

static void *look(void *argument)
{
    struct watch *watch = argument;
    while (!is_over) {
        atomic_store_explicit(watch->seen, atomic_load_explicit(watch->seen, memory_order_relaxed) + *watch->beats,
                              memory_order_relaxed);
        sched_yield();
    }
    return NULL;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    unsigned threads = (unsigned)number(argc, argv, 1, 2);
    rounds = (unsigned long)number(argc, argv, 2, 100);
    pthread_t crew[CREW_MAX], others[3];
    volatile unsigned beats = 0;
    atomic_ulong seen = 0;
    struct watch watch = {&beats, &seen};
    struct transcript stacked = {0}, worked = {0};
    all = calloc(1, sizeof *all);
    all->ticket = calloc(1, sizeof *all->ticket);
    all->ring = calloc(1, sizeof *all->ring);
    lock(all->ticket);
    skip(all->ticket);
    for (uintptr_t who = 0; who < threads; who++)
        must(pthread_create(&crew[who], NULL, work, (void *)who));
    must(pthread_create(&others[0], NULL, produce, all));
    must(pthread_create(&others[1], NULL, consume, all));
    must(pthread_create(&others[2], NULL, look, &watch));
    go = 1;
    for (unsigned who = 0; who < threads; who++) {
        while (!desks[who].is_ready) {
            beats++;
            sched_yield();
        }
        note(&worked, desks[who].work % 1000003);
    }
    is_over = 1;
    for (unsigned who = 0; who < threads; who++)
        must(pthread_join(crew[who], NULL));
    for (int other = 0; other < 3; other++)
        must(pthread_join(others[other], NULL));
    for (struct node *node = all->top; node; node = node->next)
        note(&stacked, node->value);
    show("ticket", &by_ticket);
    show("ring", &by_ring);
    show("flag", &by_flag);
    show("stacked", &stacked);
    show("worked", &worked);
    printf("beats %u seen %lu\n", beats, seen);
    return 0;
}
