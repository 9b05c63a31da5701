/* A function of which nothing is said, and whose frame pointer is none. */
#include "told.h"

void bare(void);
__asm__(".text\n"
        ".type bare, @function\n"
        "bare:\n"
        "push %rbp\n"
        "mov $0x7777, %ebp\n"
        "call take\n"
        "pop %rbp\n"
        "ret\n"
        ".size bare, .-bare\n");

int main(void) {
    bare();
    return 0;
}
