// A fault is handled on another stack, which knows that it is that one and can't be changed meanwhile, and left by the
// siglongjmp that fortified programs have: that one jumps to a deeper frame from no other place.
#include "../transcript.h"
#include <setjmp.h>
#include <signal.h>

static __thread sigjmp_buf back;
static __thread int handled;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;
static int rounds;

static void on_fault(int number)
{
    stack_t now, other = {.ss_flags = SS_DISABLE};
    must_be(number == SIGSEGV && sigaltstack(NULL, &now) == 0 && (now.ss_flags & SS_ONSTACK));
    must_be(sigaltstack(&other, NULL) == -1 && errno == EPERM);
    handled++;
    siglongjmp(back, 1);
}

__attribute__((noinline)) static void fault(int who)
{
    volatile int *volatile nowhere = NULL;
    if (!sigsetjmp(back, 1))
        *nowhere = 1;
    must(pthread_mutex_lock(&mutex));
    note(&transcript, who);
    must(pthread_mutex_unlock(&mutex));
}

static void *worker(void *argument)
{
    // Above the frame that is jumped to.
    char room[32768];
    stack_t now, other = {.ss_sp = room, .ss_size = sizeof room}, none = {.ss_flags = SS_DISABLE};
    must_be(sigaltstack(&other, NULL) == 0);
    for (int round = 0; round < rounds; round++)
        fault((int)(intptr_t)argument);
    must_be(handled == rounds);
    must_be(sigaltstack(&none, &now) == 0 && now.ss_flags == 0 && now.ss_sp == room);
    return NULL;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 50);
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
    must(sigaction(SIGSEGV, &action, NULL));
    crew(threads, worker);
    show("order", &transcript);
    return 0;
}
