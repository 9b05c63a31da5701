// What faults.c opens while its threads run.
#include <stdatomic.h>

long counts(atomic_long *counter)
{
    long seen = 0;
    for (int i = 0; i < 1000; i++)
        seen += atomic_fetch_add(counter, 2);
    return seen;
}
