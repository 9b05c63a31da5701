// Instructions that read the outside, and what they must leave alone. Prints what they told.
//
// usage: outside [THREADS]

#include "../transcript.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

// Every general register and the flags around an instruction, in the order of `names`.
struct registers {
    uint64_t general[15], flags;
};
static const char *const names[] = {"rax", "rcx", "rdx", "rbx", "rbp", "rsi", "rdi", "r8",
                                    "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
enum { RAX, RCX, RDX, RBX, RBP, RSI, RDI, R8, R9, R15 = 14 };

typedef void routine(struct registers *);

// Loads all registers, runs the instruction, stores all registers. Vectors are full before and compared after.
#define ROUTINE(name, instruction)                                                                                     \
    routine name;                                                                                                      \
    __asm__(".text\n.globl " #name "\n.type " #name ",@function\n" #name ":\n.cfi_startproc\n"                         \
            "push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15; push %rdi\n.cfi_adjust_cfa_offset 56\n" \
            "push 120(%rdi); popf\n"                                                                                   \
            "mov (%rdi),%rax; mov 8(%rdi),%rcx; mov 16(%rdi),%rdx; mov 24(%rdi),%rbx; mov 32(%rdi),%rbp\n"             \
            "mov 40(%rdi),%rsi; mov 56(%rdi),%r8; mov 64(%rdi),%r9; mov 72(%rdi),%r10; mov 80(%rdi),%r11\n"            \
            "mov 88(%rdi),%r12; mov 96(%rdi),%r13; mov 104(%rdi),%r14; mov 112(%rdi),%r15; mov 48(%rdi),%rdi\n"        \
            "movl $0x11223344,-8(%rsp)\n" instruction "\n"                                                             \
            "xchg %rdi,(%rsp); mov %rax,(%rdi); pushf; pop 120(%rdi)\n"                                                \
            "mov %rcx,8(%rdi); mov %rdx,16(%rdi); mov %rbx,24(%rdi); mov %rbp,32(%rdi); mov %rsi,40(%rdi)\n"           \
            "mov %r8,56(%rdi); mov %r9,64(%rdi); mov %r10,72(%rdi); mov %r11,80(%rdi); mov %r12,88(%rdi)\n"            \
            "mov %r13,96(%rdi); mov %r14,104(%rdi); mov %r15,112(%rdi); pop %rax; mov %rax,48(%rdi)\n"                 \
            "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n.cfi_adjust_cfa_offset -56\nret\n"            \
            ".cfi_endproc\n.size " #name ",.-" #name "\n")

ROUTINE(run_cpuid, "cpuid");
ROUTINE(run_rdtsc, "rdtsc");
ROUTINE(run_rdtsc_shifted, "rdtsc; shl $32,%rdx; or %rdx,%rax");
ROUTINE(run_rdtscp, "rdtscp");
ROUTINE(run_xgetbv, "xgetbv");
ROUTINE(run_rdpid, "rdpid %r9");
ROUTINE(run_rdrand, "rdrand %r10");
ROUTINE(run_rdrand_low, "rdrand %esi");
ROUTINE(run_rdrand_short, "rdrand %r12w");
ROUTINE(run_rdseed, "rdseed %rdi");

// What stands around them may have to move: an operand that lies at a distance, a jump, what comes before.
ROUTINE(run_rdtsc_near, "rdtsc; mov near_word(%rip),%r9");
ROUTINE(run_rdtsc_behind, "lea -8(%r9),%r9; rdtsc; call 1f; 1: lea 8(%rsp),%rsp");
ROUTINE(run_rdrand_again, "1: rdrand %r10; jnc 1b");
__asm__(".data\nnear_word: .quad 0x1234567812345678\n.text");

// Something jumps right behind them: they stay as they are.
#define ENTERED(instruction) "jmp 2f; 1: jmp 3f; 2: " instruction "; 3:"
ROUTINE(run_cpuid_entered, ENTERED("cpuid"));
ROUTINE(run_rdtsc_entered, ENTERED("rdtsc"));
ROUTINE(run_rdtscp_entered, ENTERED("rdtscp"));
ROUTINE(run_rdrand_entered, ENTERED("rdrand %r10"));

#define FLAGS 0x8D5ul
#define CARRY 1ul

static const struct registers before = {
    {0, 0, 0xA2A2A2A2A2, 0xA3A3A3A3A3A3, 0xA4A4A4A4A4A4A4, 0xA5A5A5A5A5A5A5A5, 0xA6A6A6A6A6, 0xA7A7A7, 0xA8A8A8A8A8A8A8A8,
     0xA9A9A9A9A9A9A9A9, 0xAAAAAAAAAAAAAAAA, 0xABABABABABABABAB, 0xACACACAC, 0xADADADADAD, 0xAEAEAEAEAEAE},
    0x202 | FLAGS};

enum flags { NO_FLAG, ONE_FLAG, ANY_FLAG };

// `changed` are the registers that the instruction writes.
static struct registers check(routine *run, uint64_t rax, uint64_t rcx, unsigned changed, enum flags flags)
{
    struct registers given = before, now;
    given.general[RAX] = rax;
    given.general[RCX] = rcx;
    now = given;
    double full[8], then[8];
    for (int i = 0; i < 8; i++)
        full[i] = 1.5 * i;
    __asm__ volatile("movupd (%0),%%xmm0; movupd 16(%0),%%xmm7; movupd 32(%0),%%xmm8; movupd 48(%0),%%xmm15"
                     : : "r"(full) : "xmm0", "xmm7", "xmm8", "xmm15", "memory");
    run(&now);
    __asm__ volatile("movupd %%xmm0,(%0); movupd %%xmm7,16(%0); movupd %%xmm8,32(%0); movupd %%xmm15,48(%0)"
                     : : "r"(then) : "memory");
    must_be(memcmp(full, then, sizeof full) == 0);
    for (unsigned i = 0; i <= R15; i++)
        if (!(changed >> i & 1) && now.general[i] != given.general[i]) {
            fprintf(stderr, "%s: %lx, was %lx\n", names[i], now.general[i], given.general[i]);
            exit(1);
        }
    if (flags == ONE_FLAG)
        must_be((now.flags & FLAGS & ~CARRY) == 0);
    else if (flags == NO_FLAG)
        must_be((now.flags & FLAGS) == (given.flags & FLAGS));
    return now;
}

static void processor(void)
{
    const unsigned written = 1 << RAX | 1 << RCX | 1 << RDX | 1 << RBX;
    for (unsigned leaf = 0; leaf < 0x20; leaf++)
        for (unsigned part = 0; part < 3; part++) {
            struct registers now = check(run_cpuid, leaf, part, written, NO_FLAG);
            printf("cpuid %x %x: %lx %lx %lx %lx\n", leaf, part, now.general[RAX], now.general[RBX], now.general[RCX],
                   now.general[RDX]);
            for (int i = RAX; i <= RBX; i++)
                must_be(now.general[i] >> 32 == 0);
        }
    struct registers same = check(run_cpuid_entered, 0xFFFFFFFF00000000, 0xFFFFFFFF00000000, written, NO_FLAG);
    must_be(same.general[RAX] == check(run_cpuid, 0, 0, written, NO_FLAG).general[RAX]);
    struct registers state = check(run_xgetbv, 7, 0, 1 << RAX | 1 << RDX, NO_FLAG);
    must_be((state.general[RAX] & 3) == 3);
    printf("xgetbv %lx\n", state.general[RAX]);
}

static int has(unsigned leaf, unsigned number, unsigned bit)
{
    return check(run_cpuid, leaf, 0, 15, NO_FLAG).general[number] >> bit & 1;
}

static void times(int rounds)
{
    uint64_t last = 0;
    for (int i = 0; i < rounds; i++) {
        struct registers now = check(run_rdtsc, 7, 9, 1 << RAX | 1 << RDX, NO_FLAG);
        uint64_t time = now.general[RDX] << 32 | now.general[RAX];
        must_be(time > last && now.general[RAX] >> 32 == 0);
        printf("rdtsc %lu\n", time);
        last = time;
        now = check(run_rdtscp, 7, 9, 1 << RAX | 1 << RDX | 1 << RCX, NO_FLAG);
        printf("rdtscp %lu %lx\n", now.general[RDX] << 32 | now.general[RAX], now.general[RCX]);
        must_be((now.general[RDX] << 32 | now.general[RAX]) > last);
        now = check(run_rdtsc_shifted, 7, 9, 1 << RAX | 1 << RDX, ANY_FLAG);
        must_be(now.general[RAX] > last && now.general[RDX] == now.general[RAX] >> 32 << 32);
        last = now.general[RAX];
        now = check(run_rdtsc_near, 7, 9, 1 << RAX | 1 << RDX | 1 << R9, NO_FLAG);
        must_be((now.general[RDX] << 32 | now.general[RAX]) > last && now.general[R9] == 0x1234567812345678);
        now = check(run_rdtsc_behind, 7, 9, 1 << RAX | 1 << RDX | 1 << R9, NO_FLAG);
        must_be((now.general[RDX] << 32 | now.general[RAX]) > last && now.general[R9] == before.general[R9] - 8);
        now = check(run_rdtsc_entered, ~0ul, 9, 1 << RAX | 1 << RDX, NO_FLAG);
        must_be((now.general[RDX] << 32 | now.general[RAX]) > last && now.general[RAX] >> 32 == 0);
        now = check(run_rdtscp_entered, ~0ul, 9, 1 << RAX | 1 << RDX | 1 << RCX, NO_FLAG);
        last = now.general[RDX] << 32 | now.general[RAX];
        printf("rdtscp %lu %lx\n", last, now.general[RCX]);
    }
}

static void numbers(int rounds)
{
    for (int i = 0; i < rounds; i++) {
        struct registers now;
        if (has(7, RCX, 22))
            printf("rdpid %lx\n", check(run_rdpid, 1, 2, 1 << 8, NO_FLAG).general[8]);
        if (has(1, RCX, 30)) {
            now = check(run_rdrand, 1, 2, 1 << 9, ONE_FLAG);
            printf("rdrand %lx %lu\n", now.general[9], now.flags & CARRY);
            now = check(run_rdrand_low, 1, 2, 1 << RSI, ONE_FLAG);
            must_be(now.general[RSI] >> 32 == 0);
            printf("rdrand %lx\n", check(run_rdrand_again, 1, 2, 1 << 9, ANY_FLAG).general[9]);
            printf("rdrand %lx\n", check(run_rdrand_entered, ~0ul, 2, 1 << 9, ONE_FLAG).general[9]);
            printf("rdrand %lx\n", now.general[RSI]);
            now = check(run_rdrand_short, 1, 2, 1 << 11, ONE_FLAG);
            must_be(now.general[11] >> 16 == before.general[11] >> 16);
            printf("rdrand %lx\n", now.general[11]);
        }
        if (has(7, RBX, 18)) {
            now = check(run_rdseed, 1, 2, 1 << RDI, ONE_FLAG);
            printf("rdseed %lx %lu\n", now.general[RDI], now.flags & CARRY);
        }
    }
}

static sigjmp_buf back;
static volatile int met;

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    met = number;
    // Also inside the handler.
    must_be(check(run_rdtsc, 7, 9, 1 << RAX | 1 << RDX, NO_FLAG).general[RAX] != 0);
    if (info->si_code > 0)
        siglongjmp(back, 1);
}

// The right to read the time is the program's to ask for.
static void right(void)
{
    int now = 0;
    must_be(prctl(PR_GET_TSC, &now) == 0 && now == PR_TSC_ENABLE);
    must_be(prctl(PR_SET_TSC, PR_TSC_ENABLE) == 0);
    must_be(prctl(PR_SET_TSC, 3) == -1 && errno == EINVAL);
    must_be(prctl(PR_GET_TSC, 0) == -1 && errno == EFAULT);
}

// The program's own faults are its own.
static void faults(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, old;
    sigset_t all, seen;
    must_be(sigaction(SIGILL, &action, &old) == 0 && old.sa_handler == SIG_DFL);
    must_be(sigaction(SIGSEGV, &action, 0) == 0);
    must_be(sigaction(SIGILL, 0, &old) == 0 && old.sa_sigaction == on_fault);
    for (int i = 0; i < 3; i++) {
        met = 0;
        if (sigsetjmp(back, 1) == 0)
            __asm__ volatile("ud2");
        must_be(met == SIGILL);
        if (sigsetjmp(back, 1) == 0)
            *(volatile int *)0 = 1;
        must_be(met == SIGSEGV);
        met = 0;
        raise(SIGILL);
        must_be(met == SIGILL);
    }
    // Blocked or not, the instructions work.
    sigfillset(&all);
    must_be(sigprocmask(SIG_SETMASK, &all, &seen) == 0);
    times(1);
    must_be(sigprocmask(SIG_SETMASK, &seen, 0) == 0);
    for (int signal = 0; signal < 2; signal++) {
        int number = signal ? SIGSEGV : SIGILL, status;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            must_be(sigaction(number, &(struct sigaction){.sa_handler = SIG_DFL}, 0) == 0);
            if (signal)
                *(volatile int *)0 = 1;
            __asm__ volatile("ud2");
        }
        must_be(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == number);
    }
}

static void *thread(void *argument)
{
    uint64_t *sum = argument;
    for (int i = 0; i < 20; i++) {
        struct registers now = check(run_rdtsc, 7, 9, 1 << RAX | 1 << RDX, NO_FLAG);
        *sum = *sum * 31 + now.general[RAX];
        if (has(1, RCX, 30))
            *sum = *sum * 31 + check(run_rdrand, 1, 2, 1 << 9, ONE_FLAG).general[9];
    }
    return 0;
}

int main(int count, char **words)
{
    enum { MOST = 8 };
    int threads = count > 1 ? atoi(words[1]) : 0;
    pthread_t all[MOST];
    uint64_t sums[MOST] = {0};
    must_be(threads <= MOST);
    processor();
    times(3);
    numbers(3);
    right();
    for (int i = 0; i < threads; i++)
        must_be(pthread_create(&all[i], 0, thread, &sums[i]) == 0);
    for (int i = 0; i < threads; i++) {
        must_be(pthread_join(all[i], 0) == 0);
        printf("thread %lx\n", sums[i]);
    }
    faults();
    printf("builtin %d %d\n", __builtin_cpu_supports("avx2"), __builtin_cpu_supports("sse4.2"));
    return 0;
}
