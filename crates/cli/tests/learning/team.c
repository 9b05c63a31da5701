// OpenMP: what one loop writes the next one reads, and a variable that all change. With RACING nothing
// stands between those changes.
#include <stdio.h>

enum { ITEMS = 20000 };

static double items[ITEMS];
static long hits;

int main(void)
{
    double sum = 0;
#pragma omp parallel for num_threads(3)
    for (int i = 0; i < ITEMS; i++)
        items[i] = i * 0.5;
#pragma omp parallel for num_threads(3) schedule(dynamic, 100) reduction(+ : sum)
    for (int i = 0; i < ITEMS; i++)
        sum += items[(i * 7) % ITEMS] * 1e-3;
#pragma omp parallel for num_threads(3)
    for (int i = 0; i < ITEMS; i += 64) {
#ifndef RACING
#pragma omp critical
#endif
        hits++;
    }
    printf("%.17g %ld\n", sum, hits);
    return 0;
}
