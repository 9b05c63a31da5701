/* Stands for our own library: what it does for the program. */
#include "told.h"

__attribute__((noinline)) static void inside(void *p) {
    take();
    free(p);
}

void release(void *p) {
    inside(p);
    __asm__ volatile("");
}

void each(void (*f)(void *), void *p) {
    f(p);
    __asm__ volatile("");
}
