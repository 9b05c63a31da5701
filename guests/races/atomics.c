// Atomic instructions: counters, locks by hand, reference counts. Right ones give no report; what only stands beside
// them is not ordered by them.
#include "twins.h"
#include <stdatomic.h>

#define ROUNDS 200

static atomic_int counter, another, turn;
static volatile atomic_int lock_word;
static volatile int shared;
static atomic_flag busy = ATOMIC_FLAG_INIT;
static int plain_counter;

struct counted {
    atomic_int users;
    volatile int slots[2];
};

static struct counted *counted;

static void *count(void *argument)
{
    for (int round = 0; round < ROUNDS; round++)
        atomic_fetch_add(&counter, 1);
    return argument;
}

static void *count_relaxed(void *argument)
{
    for (int round = 0; round < ROUNDS; round++)
        atomic_fetch_add_explicit(&counter, 1, memory_order_relaxed);
    (void)atomic_load_explicit(&counter, memory_order_relaxed);
    return argument;
}

static void *count_by_compare(void *argument)
{
    for (int round = 0; round < ROUNDS; round++)
        for (int seen = atomic_load(&counter); !atomic_compare_exchange_weak(&counter, &seen, seen + 1);)
            continue;
    return argument;
}

// Not atomic at all: one instruction that reads and writes.
static void *count_plainly(void *argument)
{
    __asm__ volatile("incl %0" : "+m"(plain_counter)); // race plain_count
    return argument;
}

// A lock by hand: exchange to take it, a plain store to let it go.
static void hand_lock(void)
{
    while (atomic_exchange_explicit(&lock_word, 1, memory_order_acquire))
        while (atomic_load_explicit(&lock_word, memory_order_relaxed))
            __builtin_ia32_pause();
}

static void hand_unlock(void)
{
    atomic_store_explicit(&lock_word, 0, memory_order_release);
}

static void *with_hand_lock(void *argument)
{
    for (int round = 0; round < ROUNDS; round++) {
        hand_lock();
        shared = round;
        hand_unlock();
    }
    return argument;
}

static void *with_flag(void *argument)
{
    for (int round = 0; round < ROUNDS; round++) {
        while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire))
            __builtin_ia32_pause();
        shared = round;
        atomic_flag_clear_explicit(&busy, memory_order_release);
    }
    return argument;
}

static void *with_compare(void *argument)
{
    for (int round = 0; round < ROUNDS; round++) {
        int free_ = 0;
        while (!atomic_compare_exchange_weak(&lock_word, &free_, 1))
            free_ = 0;
        shared = round;
        hand_unlock();
    }
    return argument;
}

// A ticket lock: who serves is a plain store of the one who was served.
static void *with_ticket(void *argument)
{
    for (int round = 0; round < ROUNDS / 10; round++) {
        int mine = atomic_fetch_add(&counter, 1);
        while (atomic_load_explicit(&turn, memory_order_acquire) != mine) // race ticket_seen
            __builtin_ia32_pause();
        shared = round;                                                // race ticket_value
        atomic_store_explicit(&turn, mine + 1, memory_order_release); // race ticket_passed
    }
    return argument;
}

static void *one_past_lock(void *argument)
{
    hand_lock();
    shared = 1; // race under_lock
    hand_unlock();
    return argument;
}

static void *other_past_lock(void *argument)
{
    shared = 2; // race past_lock
    return argument;
}

// Atomics of their own, which nobody else touches.
static void *one_beside(void *argument)
{
    shared = 1; // race one_beside
    atomic_fetch_add(&counter, 1);
    return argument;
}

static void *other_beside(void *argument)
{
    atomic_fetch_add(&another, 1);
    shared = 2; // race other_beside
    return argument;
}

// A location that is atomic here and plain there.
static void *one_atomic(void *argument)
{
    atomic_fetch_add(&counter, 1); // race atomically
    return argument;
}

static void *other_plain(void *argument)
{
    *(volatile int *)&counter = 7; // race plainly
    return argument;
}

// The last one to let go frees it: the count orders each use with the free.
static void let_go(struct counted *it)
{
    if (atomic_fetch_sub_explicit(&it->users, 1, memory_order_acq_rel) == 1) {
        it->slots[0] = it->slots[1] = 0;
        free(it);
    }
}

static void *one_user(void *argument)
{
    counted->slots[0] = 1;
    let_go(counted);
    return argument;
}

static void *other_user(void *argument)
{
    counted->slots[1] = 1;
    let_go(counted);
    return argument;
}

int main(int argc, char **argv)
{
    static const struct twins cases[] = {
        {"counter", count, count},
        {"relaxed", count_relaxed, count},
        {"compare", count_by_compare, count},
        {"plain_counter", count_plainly, count_plainly},
        {"hand_lock", with_hand_lock, with_hand_lock},
        {"flag", with_flag, with_flag},
        {"compare_lock", with_compare, with_hand_lock},
        {"ticket", with_ticket, with_ticket},
        {"past_lock", one_past_lock, other_past_lock},
        {"beside", one_beside, other_beside},
        {"mixed", one_atomic, other_plain},
        {"reference_count", one_user, other_user},
    };
    counted = calloc(1, sizeof *counted);
    must_be(counted != NULL);
    counted->users = 2;
    run_chosen(cases);
    return 0;
}
