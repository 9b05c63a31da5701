// A handler that leaves by siglongjmp a call that it interrupted, from the thread's own
// stack or another one; what stood on the stack then is overwritten, and the thread ends by
// pthread_exit, which unwinds it.
#include "../transcript.h"
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>

static int other_stack;
static int rounds;
static int threads;
static int pipes[64][2];
static pthread_t ids[64];
static sem_t ready[64];
static sem_t jumped[64];
static __thread sigjmp_buf back;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;

static void on_signal(int number)
{
    (void)number;
    siglongjmp(back, 1);
}

__attribute__((noinline)) static void overwrite(int depth)
{
    volatile char room[512];
    memset((char *)room, 0x5A, sizeof room);
    if (depth > 0)
        overwrite(depth - 1);
    else
        usleep(1);
    room[0] = 0;
}

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    char byte;
    stack_t stack;
    memset(&stack, 0, sizeof stack);
    stack.ss_size = 65536;
    stack.ss_sp = malloc(stack.ss_size);
    if (other_stack)
        must_be(sigaltstack(&stack, NULL) == 0);
    for (volatile int round = 0; round < rounds; round++) {
        if (!sigsetjmp(back, 1)) {
            must_be(sem_post(&ready[who]) == 0);
            read(pipes[who][0], &byte, 1);
            must_be(0);
        }
        overwrite(round % 8);
        must(pthread_mutex_lock(&mutex));
        note(&transcript, who);
        must(pthread_mutex_unlock(&mutex));
        must_be(sem_post(&jumped[who]) == 0);
    }
    pthread_exit(NULL);
}

static void strike(int who)
{
    must_be(sem_wait(&ready[who]) == 0);
    // The thread is about to sleep: the pipe stays empty, so it waits there for the signal.
    usleep(1000);
    must(pthread_kill(ids[who], SIGALRM));
    must_be(sem_wait(&jumped[who]) == 0);
}

// THREADS ROUNDS same|other
int main(int argc, char **argv)
{
    struct sigaction action;
    threads = number(argc, argv, 1, 2);
    rounds = number(argc, argv, 2, 20);
    other_stack = is(word(argc, argv, 3, "same"), "other");
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = other_stack ? SA_ONSTACK : 0;
    must_be(sigaction(SIGALRM, &action, NULL) == 0);
    for (int who = 0; who < threads; who++) {
        must_be(pipe(pipes[who]) == 0);
        must_be(sem_init(&ready[who], 0, 0) == 0 && sem_init(&jumped[who], 0, 0) == 0);
        must(pthread_create(&ids[who], NULL, worker, (void *)(intptr_t)who));
    }
    for (int round = 0; round < rounds; round++)
        for (int who = 0; who < threads; who++)
            strike(who);
    for (int who = 0; who < threads; who++)
        must(pthread_join(ids[who], NULL));
    show("order", &transcript);
    return 0;
}
