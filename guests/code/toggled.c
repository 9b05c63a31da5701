// Pages that are writable or executable, never both: each thread makes its own
// writable, changes one of its functions, and makes it executable again. What is not
// executable does not run.
#include "code.h"
#include <setjmp.h>
#include <signal.h>

#define FUNCTIONS 64
#define APART 64

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;
static int rounds;
static _Thread_local sigjmp_buf back;

static void on_fault(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    siglongjmp(back, info->si_addr == NULL ? 1 : 2);
}

static void *worker(void *argument)
{
    unsigned who = (unsigned)(intptr_t)argument;
    unsigned char *code = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    for (unsigned which = 0; which < FUNCTIONS; which++)
        encode(code + which * APART, which);
    unsigned sum = FUNCTIONS * (FUNCTIONS - 1) / 2;
    for (unsigned round = 0; round < (unsigned)rounds; round++) {
        must_be(mprotect(code, PAGE, PROT_READ | PROT_EXEC) == 0);
        unsigned found = 0;
        for (unsigned which = 0; which < FUNCTIONS; which++)
            found += call(code + which * APART, 0);
        must_be(found == sum);
        must_be(mprotect(code, PAGE, PROT_READ | PROT_WRITE) == 0);
        if (sigsetjmp(back, 1) == 0) {
            call(code, 0);
            must_be(!"code ran that is not executable");
        }
        unsigned old = round % FUNCTIONS, value;
        memcpy(&value, code + old * APART + 1, sizeof value);
        encode(code + old * APART, round);
        sum += round - value;
        must(pthread_mutex_lock(&mutex));
        note(&transcript, who);
        must(pthread_mutex_unlock(&mutex));
        jitter();
    }
    return NULL;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 2);
    rounds = number(argc, argv, 2, 50);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    must_be(sigaction(SIGSEGV, &action, NULL) == 0);
    crew(threads, worker);
    show("toggled", &transcript);
    return 0;
}
