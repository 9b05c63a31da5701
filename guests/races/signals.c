// Signal handlers: part of the thread that they interrupt, and racing with all others.
#include "twins.h"
#include <signal.h>

static volatile sig_atomic_t shared;
static pthread_t target;
static sem_t ready, handled;

static void handle(int number)
{
    (void)number;
    shared = 1; // race handler
}

static void *raising(void *argument)
{
    must_be(raise(SIGUSR1) == 0);
    return argument;
}

static void *beside(void *argument)
{
    shared = 2; // race beside_handler
    return argument;
}

// The handler's thread may do as it likes.
static void *own(void *argument)
{
    shared = 3;
    must_be(raise(SIGUSR1) == 0);
    shared = 4;
    return argument;
}

// Its signal comes from outside: it sleeps until then.
static void *sleeping(void *argument)
{
    sigset_t set, before;
    must_be(sigemptyset(&set) == 0 && sigaddset(&set, SIGUSR1) == 0);
    must(pthread_sigmask(SIG_BLOCK, &set, &before));
    post(&ready);
    must_be(sigsuspend(&before) != 0 && errno == EINTR);
    post(&handled);
    return argument;
}

// Sends, and writes what the handler writes.
static void *sender(void *argument)
{
    await(&ready);
    must(pthread_kill(target, SIGUSR1));
    shared = 2; // race sender
    return argument;
}

static void *waiting_sender(void *argument)
{
    await(&ready);
    must(pthread_kill(target, SIGUSR1));
    await(&handled);
    shared = 2;
    return argument;
}

int main(int argc, char **argv)
{
    const char *name = word(argc, argv, 1, "");
    static char stack[64 * 1024];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = handle};
    must_be(sem_init(&ready, 0, 0) == 0 && sem_init(&handled, 0, 0) == 0);
    if (is(name, "other_stack")) {
        must_be(sigaltstack(&other, NULL) == 0);
        action.sa_flags = SA_ONSTACK;
    }
    must_be(sigaction(SIGUSR1, &action, NULL) == 0);
    if (is(name, "raised")) {
        side_by_side(raising, beside, NULL);
    } else if (is(name, "other_stack")) {
        pthread_t thread;
        must(pthread_create(&thread, NULL, beside, NULL));
        raising(NULL);
        must(pthread_join(thread, NULL));
    } else if (is(name, "own")) {
        side_by_side(own, idle, NULL);
    } else if (is(name, "one_by_one")) {
        raising(NULL);
        side_by_side(beside, idle, NULL);
        raising(NULL);
    } else {
        pthread_t thread;
        must(pthread_create(&target, NULL, sleeping, NULL));
        must(pthread_create(&thread, NULL, is(name, "sent") ? sender : waiting_sender, NULL));
        must(pthread_join(thread, NULL));
        must(pthread_join(target, NULL));
    }
    return 0;
}
