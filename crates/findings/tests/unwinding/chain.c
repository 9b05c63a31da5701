/* Ordinary frames: inlined, with buffers, aligned, of a size known at run time only, through the library, of a thread,
   and a call that nothing follows. Lines are named by the tests. */
#include "told.h"
#include <pthread.h>
#include <setjmp.h>

static inline __attribute__((always_inline)) void inner(volatile char *p) {
    *p = 1;
    take();
}

__attribute__((noinline)) int middle(int n) {
    volatile char buffer[64];
    inner(buffer + n);
    return buffer[n];
}

__attribute__((noinline)) int outer(int n) {
    return middle(n) + middle(n + 1);
}

__attribute__((noinline)) int sized(int n) {
    volatile char buffer[n];
    buffer[0] = 2;
    return outer(n & 3) + buffer[0];
}

__attribute__((noinline)) int aligned(int n) {
    _Alignas(128) volatile char buffer[128];
    buffer[n] = 3;
    return sized(n * 50) + buffer[n];
}

static int compare(const void *a, const void *b) {
    int first = *(const int *)a, second = *(const int *)b;
    return aligned(1 + (first > second)) * 0 + first - second;
}

static void *worker(void *p) {
    *(int *)p += outer(2);
    return p;
}

static jmp_buf back;

__attribute__((noinline, noreturn)) void last(void) {
    take();
    longjmp(back, 1);
}

__attribute__((noinline)) void leave(int n) {
    if (n)
        last();
}

int main(void) {
    int numbers[] = {3, 1, 2};
    pthread_t thread;
    int sum = outer(1);
    qsort(numbers, 3, sizeof *numbers, compare);
    pthread_create(&thread, NULL, worker, &sum);
    pthread_join(thread, NULL);
    if (!setjmp(back))
        leave(numbers[0]);
    return sum == 1000;
}
