// Extended attributes of files, and the notes that the kernel keeps on a thread: names, registers, options.

#include "calls.h"
#include <asm/prctl.h>
#include <linux/prctl.h>
#include <linux/securebits.h>
#include <sys/xattr.h>

static void files(void)
{
    char *text = room(60);
    int fd = open("small", O_RDWR);
    CALL(setxattr, "small", "user.one", "first value", 11, 0);
    CALL(lsetxattr, "small", "user.two", "second", 6, XATTR_CREATE);
    CALL(fsetxattr, fd, "user.three", "third", 5, 0);
    CALL(getxattr, "small", "user.one", text, 60);
    wrote("getxattr", text, 60);
    CALL(lgetxattr, "small", "user.two", text, 60);
    wrote("lgetxattr", text, 60);
    CALL(fgetxattr, fd, "user.three", text, 60);
    wrote("fgetxattr", text, 60);
    CALL(getxattr, "small", "user.one", text, 0);
    CALL(getxattr, "small", "user.one", text, 4);
    CALL(getxattr, "small", "user.none", text, 60);
    wrote("nothing", text, 60);
    CALL(listxattr, "small", text, 60);
    wrote("listxattr", text, 60);
    CALL(llistxattr, "small", text, 0);
    CALL(flistxattr, fd, text, 5);
    wrote("nothing", text, 60);
    struct {
        uint64_t value;
        uint32_t size, flags;
    } with = {(uintptr_t)text, 60, 0}, one = {(uintptr_t)"fourth", 6, 0};
    CALL(setxattrat, AT_FDCWD, "small", 0, "user.four", &one, sizeof one);
    CALL(getxattrat, AT_FDCWD, "small", 0, "user.four", &with, sizeof with);
    wrote("getxattrat", text, 60);
    with.size = 0;
    CALL(getxattrat, AT_FDCWD, "small", 0, "user.four", &with, sizeof with);
    CALL(listxattrat, AT_FDCWD, "small", 0, text, 60);
    wrote("listxattrat", text, 60);
    CALL(removexattrat, AT_FDCWD, "small", 0, "user.four");
    CALL(removexattr, "small", "user.one");
    CALL(lremovexattr, "small", "user.two");
    CALL(fremovexattr, fd, "user.three");
    CALL(fremovexattr, fd, "user.three");
}

static void notes(void)
{
    char *name = room(16);
    unsigned *word = room(4);
    uint64_t *wide = room(8);
    CALL(prctl, PR_GET_NAME, name);
    wrote("name", name, 16);
    CALL(prctl, PR_SET_NAME, "another");
    CALL(prctl, PR_GET_NAME, name);
    wrote("name", name, 16);
    static const int words[] = {PR_GET_PDEATHSIG, PR_GET_TSC, PR_GET_CHILD_SUBREAPER, PR_GET_UNALIGN, PR_GET_FPEMU,
                                PR_GET_FPEXC, PR_GET_ENDIAN};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        CALL(prctl, words[i], word);
        wrote("word", word, 4);
    }
    CALL(prctl, PR_GET_TID_ADDRESS, wide);
    wrote("address", wide, 8);
    static const int plain[] = {PR_GET_DUMPABLE, PR_GET_KEEPCAPS, PR_GET_SECCOMP, PR_GET_SECUREBITS, PR_GET_TIMERSLACK,
                                PR_MCE_KILL_GET, PR_GET_NO_NEW_PRIVS, PR_GET_THP_DISABLE, PR_GET_TIMING,
                                PR_GET_IO_FLUSHER, 66 /* PR_GET_MDWE */, 68 /* PR_GET_MEMORY_MERGE */};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        CALL(prctl, plain[i], 0, 0, 0, 0);
    CALL(prctl, PR_CAPBSET_READ, 5);
    CALL(prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, 5, 0, 0);
    CALL(prctl, PR_GET_SPECULATION_CTRL, 0, 0, 0, 0);
    CALL(prctl, PR_SET_TIMERSLACK, 70000);
    CALL(prctl, PR_GET_TIMERSLACK);
    CALL(prctl, PR_SET_PDEATHSIG, 0);
    CALL(prctl, PR_SET_DUMPABLE, 1);
    CALL(prctl, PR_SET_VMA, PR_SET_VMA_ANON_NAME, 0, 0, NULL);
    CALL(prctl, 78 /* PR_FUTEX_HASH */, 2 /* PR_FUTEX_HASH_GET_SLOTS */, 0);
    // Whose group of processes this is: the pointer is the last argument.
    CALL(prctl, PR_SCHED_CORE, PR_SCHED_CORE_GET, 0, 0, wide);
    wrote("cookie", wide, 8);
    CALL(prctl, PR_SCHED_CORE, PR_SCHED_CORE_GET, getpid(), 1, wide);
    wrote("cookie", wide, 8);
    uint64_t *vector = room(400);
    CALL(prctl, 0x41555856 /* PR_GET_AUXV */, vector, 400, 0, 0);
    printf("  auxiliary %llu %llu\n", (unsigned long long)vector[2], (unsigned long long)vector[3]);
    memset(vector, PATTERN, 400);
    CALL(prctl, 0x41555856 /* PR_GET_AUXV */, vector, 20, 0, 0);
    bytes("behind", (char *)vector + 20, 380);
    // What would catch the calls of the runtime, and what else is refused.
    CALL(prctl, PR_SET_SECCOMP, 1);
    CALL(prctl, 59 /* PR_SET_SYSCALL_USER_DISPATCH */, 1, 0, 0, 0);
    CALL(prctl, PR_SET_MM, 1, 0, 0, 0);
    CALL(seccomp, 0, 0, NULL);
    CALL(landlock_create_ruleset, NULL, 0, 1);
    CALL(landlock_add_rule, -1, 1, NULL, 0);
    CALL(landlock_restrict_self, -1, 0);
}

static void registers(void)
{
    uint64_t *wide = room(8);
    static const int asked[] = {ARCH_GET_FS, ARCH_GET_GS, 0x1021, 0x1022, 0x1024, 0x4001, 0x4003};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        CALL(arch_prctl, asked[i], wide);
        wrote("register", wide, 8);
    }
    CALL(arch_prctl, ARCH_SET_GS, 0x1234);
    CALL(arch_prctl, ARCH_GET_GS, wide);
    wrote("register", wide, 8);
    CALL(arch_prctl, ARCH_GET_CPUID, 0);
    CALL(arch_prctl, ARCH_SET_CPUID, 0);
    CALL(arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 99);
    CALL(arch_prctl, 0x5005 /* ARCH_SHSTK_STATUS */, wide);
    wrote("status", wide, 8);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    files();
    notes();
    registers();
    return 0;
}
