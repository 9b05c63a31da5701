/* More frames, and larger ones, than a snapshot has words. */
#include "told.h"

__attribute__((noinline)) int small(int n) {
    int more = 0;
    if (n)
        more = small(n - 1);
    else
        take();
    return more + n;
}

__attribute__((noinline)) int large(int n) {
    volatile char buffer[1000];
    buffer[n] = 1;
    if (n)
        return large(n - 1) + buffer[n];
    take();
    return buffer[n];
}

int main(void) {
    return small(200) + large(50) == 1;
}
