// OpenMP: iterations that whoever is free takes, critical and atomic sections,
// barriers, all by gcc's library, which hands over by atomics, plain loads and
// futexes of its own.
#include "../transcript.h"
#include <omp.h>

// THREADS ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4), rounds = number(argc, argv, 2, 2000);
    struct transcript critical = {0};
    int done[MOST_THREADS] = {0};
    double sum = 0;
    long shared = 0;
    omp_set_num_threads(threads);
#pragma omp parallel for schedule(dynamic, 4) reduction(+ : sum)
    for (int i = 0; i < rounds; i++) {
        sum += 1.0 / (i + 1);
        done[omp_get_thread_num()]++;
        if (i % 50 == 0) {
#pragma omp critical
            note(&critical, (uint64_t)i);
        }
    }
#pragma omp parallel
    {
#pragma omp atomic
        shared += omp_get_thread_num();
#pragma omp barrier
#pragma omp single
        shared = shared * 3 + omp_get_thread_num();
    }
    show("critical", &critical);
    printf("%.17g %ld", sum, shared);
    for (int i = 0; i < threads; i++)
        printf(" %d", done[i]);
    printf("\n");
    return 0;
}
