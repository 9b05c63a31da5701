#include <stdlib.h>
void release(void *p);
void each(void (*f)(void *), void *p);
__attribute__((noinline)) void clean(void *p) {
    release(p);
    __asm__ volatile("");
}
int main(void) {
    each(clean, malloc(10));
    return 0;
}
