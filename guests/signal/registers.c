// What a handler is shown of its thread, as collectors of garbage need it that stop threads by signals: a register that a
// function keeps for its caller holds a value that nothing else does, and it must be in the context, or on the stack from the
// stack pointer there on. The thread is at its locks nearly all the time.
#include "../transcript.h"
#include <semaphore.h>
#include <signal.h>
#include <ucontext.h>

enum { KEPT = 5 };
#define VALUE 0x1234567800000000ul

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t answered;
static int done, missed, shown;
static volatile int holds;
static char *top;

static int is_shown(greg_t *registers, uint64_t value)
{
    static const int kept[KEPT] = {REG_RBX, REG_R12, REG_R13, REG_R14, REG_R15};
    for (int i = 0; i < KEPT; i++)
        if ((uint64_t)registers[kept[i]] == value)
            return 1;
    for (char *at = (char *)(registers[REG_RSP] & -8); at < top; at += 8)
        if (*(uint64_t *)at == value)
            return 1;
    return 0;
}

static void look(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info;
    if (holds) {
        for (int i = 0; i < KEPT; i++)
            missed += !is_shown(((ucontext_t *)context)->uc_mcontext.gregs, VALUE + i);
        shown++;
    }
    sem_post(&answered);
}

static void pass(void)
{
    must(pthread_mutex_lock(&mutex));
    must(pthread_mutex_unlock(&mutex));
}

static int is_done(void)
{
    must(pthread_mutex_lock(&mutex));
    int now = done;
    must(pthread_mutex_unlock(&mutex));
    return now;
}

static void *worker(void *argument)
{
    char here;
    top = &here;
    while (!is_done())
        __asm__ volatile("movabs %[value], %%rbx\n lea 1(%%rbx), %%r12\n lea 2(%%rbx), %%r13\n lea 3(%%rbx), %%r14\n"
                         "lea 4(%%rbx), %%r15\n push %%rbp\n mov %%rsp, %%rbp\n sub $256, %%rsp\n and $-16, %%rsp\n"
                         "push %%rdi\n push %%rsi\n push $200\n push $0\n movl $1, (%%rsi)\n"
                         "1: call *24(%%rsp)\n decl 8(%%rsp)\n jnz 1b\n mov 16(%%rsp), %%rsi\n movl $0, (%%rsi)\n"
                         "mov %%rbp, %%rsp\n pop %%rbp"
                         :
                         : [value] "i"(VALUE), "D"(pass), "S"(&holds)
                         : "rbx", "r12", "r13", "r14", "r15", "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "memory", "cc");
    return argument;
}

// SIGNALS
int main(int argc, char **argv)
{
    int signals = number(argc, argv, 1, 50);
    pthread_t thread;
    struct sigaction action = {.sa_sigaction = look, .sa_flags = SA_SIGINFO};
    must(sigaction(SIGUSR1, &action, NULL));
    must(sem_init(&answered, 0, 0));
    must(pthread_create(&thread, NULL, worker, NULL));
    for (int i = 0; i < signals; i++) {
        must(pthread_kill(thread, SIGUSR1));
        while (sem_wait(&answered) != 0) {
        }
    }
    must(pthread_mutex_lock(&mutex));
    done = 1;
    must(pthread_mutex_unlock(&mutex));
    must(pthread_join(thread, NULL));
    printf("missed %d, shown %s\n", missed, shown > signals / 2 ? "often" : "seldom");
    return 0;
}
