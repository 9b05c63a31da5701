// Code that can't be translated runs natively, up to the thread's next operation.
// What comes before and behind it counts, and so do the edges that its thread makes.
#include "twins.h"

static volatile int before, behind, ordered;
static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
static sem_t done;

// Where gs points is the translator's.
static unsigned long base_of_gs(void)
{
    unsigned long base;
    __asm__ volatile("rdgsbase %0" : "=r"(base));
    return base;
}

static void *untranslated(void *argument)
{
    before = 1; // race before_it
    must_be(base_of_gs() != 1);
    must(pthread_mutex_lock(&own));
    behind = 1; // race behind_it
    must(pthread_mutex_unlock(&own));
    ordered = 1;
    must_be(base_of_gs() != 1);
    post(&done);
    return argument;
}

static void *beside(void *argument)
{
    before = 2; // race beside_it
    behind = 2; // race beside_it_all
    await(&done);
    ordered = 2;
    return argument;
}

int main(int argc, char **argv)
{
    must_be(sem_init(&done, 0, 0) == 0);
    if (is(word(argc, argv, 1, ""), "gs_alone"))
        must_be(base_of_gs() != 1);
    side_by_side(untranslated, beside, NULL);
    return 0;
}
