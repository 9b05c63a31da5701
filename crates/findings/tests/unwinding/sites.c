/* Code that goes elsewhere by a jump, as system calls do of which our library makes jumps: to a routine that returns
   behind the jump, and to one that returns to the `ret` of a piece of code in no file. */
#include "told.h"
#include <sys/mman.h>

void routine(void), behind(void), away(void);
/* What a piece is made of: `lea rcx, [rip + 17]; jmp [rip + 0]; address`, and at its byte 24 `ret`. */
unsigned char *piece;
__asm__(".text\n"
        ".type routine, @function\n"
        "routine:\n"
        ".cfi_startproc\n"
        ".cfi_def_cfa rsp, 0\n"
        ".cfi_register rip, rcx\n"
        "lea -128(%rsp), %rsp\n"
        ".cfi_def_cfa_offset 128\n"
        "push %rcx\n"
        ".cfi_def_cfa_offset 136\n"
        ".cfi_offset rip, -136\n"
        "push %rbp\n"
        ".cfi_def_cfa_offset 144\n"
        ".cfi_offset rbp, -144\n"
        "mov %rsp, %rbp\n"
        ".cfi_def_cfa_register rbp\n"
        "and $-16, %rsp\n"
        "sub $304, %rsp\n"
        "call take\n"
        "mov %rbp, %rsp\n"
        "pop %rbp\n"
        ".cfi_def_cfa rsp, 136\n"
        ".cfi_restore rbp\n"
        "ret $128\n"
        ".cfi_endproc\n"
        ".size routine, .-routine\n"
        ".type behind, @function\n"
        "behind:\n"
        ".cfi_startproc\n"
        "lea 1f(%rip), %rcx\n"
        "jmp routine\n"
        "nop\n"
        "1: ret\n"
        ".cfi_endproc\n"
        ".size behind, .-behind\n"
        ".type away, @function\n"
        "away:\n"
        ".cfi_startproc\n"
        "jmp *piece(%rip)\n"
        ".cfi_endproc\n"
        ".size away, .-away\n");

__attribute__((noinline)) void calling(void (*f)(void)) {
    f();
    __asm__ volatile("");
}

/* A page of pieces, one of which is made. */
static void map(uintptr_t at) {
    unsigned char code[32] = {0x48, 0x8d, 0x0d, 17, 0, 0, 0, 0xff, 0x25};
    void (*target)(void) = routine;
    memcpy(code + 13, &target, 8);
    code[24] = 0xc3;
    piece = mmap((void *)at, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (piece != (void *)at)
        abort();
    piece += 64;
    memcpy(piece, code, sizeof code);
}

int main(void) {
    calling(behind);
    map(0x7FE020000000);
    calling(away);
    map(0x600000000000);
    calling(away);
    return 0;
}
