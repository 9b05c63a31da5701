// Thread-local storage: at the same offset of each thread, and lent by its address.
#include "twins.h"

static __thread volatile int own;
static __thread volatile char much[10000];
static volatile int *volatile lent;
static sem_t offered, returned;

static void *using(void *argument)
{
    for (int round = 0; round < 100; round++)
        own = round;
    for (size_t at = 0; at < sizeof much; at++)
        much[at] = 1;
    return argument;
}

static void *lender(void *argument)
{
    lent = &own;
    post(&offered);
    own = 1; // race lender
    await(&returned);
    return argument;
}

static void *borrower(void *argument)
{
    await(&offered);
    *lent = 2; // race borrower
    post(&returned);
    return argument;
}

static void *patient_lender(void *argument)
{
    own = 1;
    lent = &own;
    post(&offered);
    await(&returned);
    own = 3;
    return argument;
}

// Of libc: every thread has its own errno.
static void *failing(void *argument)
{
    for (int round = 0; round < 100; round++)
        must_be(close(-1) != 0 && errno == EBADF);
    return argument;
}

int main(int argc, char **argv)
{
    static const struct twins cases[] = {
        {"own", using, using},
        {"lent", lender, borrower},
        {"returned", patient_lender, borrower},
        {"errno", failing, failing},
    };
    must_be(sem_init(&offered, 0, 0) == 0 && sem_init(&returned, 0, 0) == 0);
    run_chosen(cases);
    return 0;
}
