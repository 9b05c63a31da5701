// Each line that ends in "told" accesses what threads share, and no other line does but perhaps those that end in "either".
#include <stdatomic.h>

struct inner {
    long before;
    atomic_int count;
    _Atomic(struct inner *) next;
};

struct outer {
    struct inner *one;
    struct inner many[4];
    volatile char flags[8];
    int plain, locked;
    union {
        volatile long wide;
        double number;
    };
};

struct device {
    int status, data;
};

typedef struct {
    unsigned users, state;
} counted;

volatile int ready;
atomic_long total;
static struct outer all[8];
static struct outer *volatile latest;
int plain;
extern void use(volatile int *, atomic_int *, volatile int *);

int globals(void)
{
    int sum = ready; // told
    sum += (int)atomic_load_explicit(&total, memory_order_relaxed); // told
    atomic_store_explicit(&total, 5, memory_order_release); // told
    sum += plain;
    plain = 7;
    return sum;
}

long members(struct outer *given, int index)
{
    long sum = 0;
    sum += given->plain;
    sum += given->flags[3]; // told
    sum += given->one->before;
    sum += atomic_load_explicit(&given->one->count, memory_order_acquire); // told
    sum += atomic_load_explicit(&given->many[index].count, memory_order_acquire); // told
    sum += given->wide; // told
    given->plain = (int)sum;
    return sum;
}

long elements(int count)
{
    long sum = 0;
    for (int index = 0; index < count; index++)
        sum += all[index].wide; // told
    for (struct outer *each = all; each < all + count; each++)
        sum += each->plain;
    sum += latest->plain; // told
    latest->flags[1] = 1; // told
    return sum;
}

long chain(struct inner *first)
{
    long sum = 0;
    for (struct inner *each = first; each;
         each = atomic_load_explicit(&each->next, memory_order_acquire)) // told
        sum += each->before;
    return sum;
}

int device(volatile struct device *registers)
{
    registers->data = 3; // told
    return registers->status; // told
}

void counted_up(counted *object)
{
    __atomic_fetch_add(&object->users, 1, __ATOMIC_RELAXED);
}

unsigned counted_now(const counted *object)
{
    unsigned state = object->state;
    return state + __atomic_load_n(&object->users, __ATOMIC_RELAXED); // told
}

int own(int count)
{
    int sum = 0;
    for (volatile int index = 0; index < count; index++)
        sum += plain;
    return sum;
}

int lent(void)
{
    volatile int stop = 0; // either
    atomic_int seen = 0; // either
    volatile int kept = 3;
    use(&stop, &seen, 0);
    stop = 1; // told
    return atomic_load_explicit(&seen, memory_order_relaxed) + kept; // told
}
