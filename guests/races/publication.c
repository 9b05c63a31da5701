// A thing made by one thread and used by another: with a flag, with a pointer, with double-checked locking, each with
// and without what makes it right. Whoever waits does so by looking, which no recording holds.
#include "twins.h"
#include <stdatomic.h>

struct thing {
    volatile int value;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct thing made;
static volatile int flag;
static atomic_int ready_flag;
static int plain_flag;
static struct thing *volatile plain_pointer;
static _Atomic(struct thing *) atomic_pointer;

// A volatile flag, which is nothing between threads.
static void *maker_with_volatile(void *argument)
{
    made.value = 1; // race made
    flag = 1;       // race flag_set
    return argument;
}

static void *user_with_volatile(void *argument)
{
    while (!flag) // race flag_seen
        continue;
    (void)made.value; // race used
    return argument;
}

// Release and acquire: plain moves on this machine, and right.
static void *maker_with_release(void *argument)
{
    made.value = 1; // race released_value
    atomic_store_explicit(&ready_flag, 1, memory_order_release); // race release
    return argument;
}

static void *user_with_acquire(void *argument)
{
    while (!atomic_load_explicit(&ready_flag, memory_order_acquire)) // race acquire
        continue;
    (void)made.value; // race acquired_value
    return argument;
}

// The same on a plain int, of which no debug information says that it is atomic.
static void *maker_with_builtin(void *argument)
{
    made.value = 1; // race builtin_value
    __atomic_store_n(&plain_flag, 1, __ATOMIC_RELEASE); // race builtin_release
    return argument;
}

static void *user_with_builtin(void *argument)
{
    while (!__atomic_load_n(&plain_flag, __ATOMIC_ACQUIRE)) // race builtin_acquire
        continue;
    (void)made.value; // race builtin_used
    return argument;
}

// Sequentially consistent: the store is an exchange.
static void *maker_with_exchange(void *argument)
{
    made.value = 1;
    atomic_store(&ready_flag, 1);
    return argument;
}

static void *user_with_load(void *argument)
{
    while (!atomic_load(&ready_flag))
        continue;
    (void)made.value;
    return argument;
}

// Behind the flag is too late, whatever the flag is.
static void *hasty_maker(void *argument)
{
    atomic_store(&ready_flag, 1);
    made.value = 1; // race behind_flag
    return argument;
}

static void *user_of_hasty(void *argument)
{
    while (!atomic_load(&ready_flag))
        continue;
    (void)made.value; // race used_early
    return argument;
}

// The reader that does not look at the flag.
static void *user_without_look(void *argument)
{
    (void)made.value; // race used_unasked
    return argument;
}

static void *maker_before_exchange(void *argument)
{
    made.value = 1; // race before_exchange
    atomic_store(&ready_flag, 1);
    return argument;
}

// The classic: the first check stands outside the lock.
static struct thing *get_wrongly(void)
{
    if (plain_pointer == NULL) { // race first_check
        must(pthread_mutex_lock(&mutex));
        if (plain_pointer == NULL) {
            made.value = 1;        // race checked_value
            plain_pointer = &made; // race published
        }
        must(pthread_mutex_unlock(&mutex));
    }
    return plain_pointer; // race second_look
}

static void *first_to_get_wrongly(void *argument)
{
    (void)get_wrongly();
    return argument;
}

// It finds the thing made, so that it never takes the lock.
static void *second_to_get_wrongly(void *argument)
{
    while (plain_pointer == NULL) // race looked
        continue;
    (void)get_wrongly()->value; // race checked_use
    return argument;
}

static struct thing *get_rightly(void)
{
    struct thing *found = atomic_load_explicit(&atomic_pointer, memory_order_acquire); // race right_check
    if (found == NULL) {
        must(pthread_mutex_lock(&mutex));
        found = atomic_load_explicit(&atomic_pointer, memory_order_relaxed);
        if (found == NULL) {
            made.value = 1; // race right_value
            found = &made;
            atomic_store_explicit(&atomic_pointer, found, memory_order_release); // race right_publication
        }
        must(pthread_mutex_unlock(&mutex));
    }
    return found;
}

static void *first_to_get_rightly(void *argument)
{
    (void)get_rightly();
    return argument;
}

static void *second_to_get_rightly(void *argument)
{
    while (atomic_load_explicit(&atomic_pointer, memory_order_acquire) == NULL) // race right_look
        continue;
    (void)get_rightly()->value; // race right_use
    return argument;
}

// Every check under the lock.
static void *locked_getter(void *argument)
{
    must(pthread_mutex_lock(&mutex));
    if (plain_pointer == NULL) {
        made.value = 1;
        plain_pointer = &made;
    }
    struct thing *found = plain_pointer;
    must(pthread_mutex_unlock(&mutex));
    (void)found->value;
    return argument;
}

int main(int argc, char **argv)
{
    static const struct twins cases[] = {
        {"volatile", maker_with_volatile, user_with_volatile},
        {"release", maker_with_release, user_with_acquire},
        {"builtin", maker_with_builtin, user_with_builtin},
        {"exchange", maker_with_exchange, user_with_load},
        {"hasty", hasty_maker, user_of_hasty},
        {"unasked", maker_before_exchange, user_without_look},
        {"double_checked", first_to_get_wrongly, second_to_get_wrongly},
        {"double_checked_rightly", first_to_get_rightly, second_to_get_rightly},
        {"locked", locked_getter, locked_getter},
    };
    run_chosen(cases);
    return 0;
}
