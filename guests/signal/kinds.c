// One kind of handler or sender each: what the program sees of a signal comes out
// alike, wherever the runtime puts its delivery.
#include "../transcript.h"
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/wait.h>

static volatile sig_atomic_t stop;
static volatile sig_atomic_t fired;
static volatile sig_atomic_t value;
static sigjmp_buf back;

static void on_signal(int number)
{
    (void)number;
    stop = 1;
    fired = fired + 1;
}

static void on_value(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    fired = fired + 1;
    value = info->si_value.sival_int;
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    fired = fired + 1;
    must_be(info->si_addr == (void *)16);
    siglongjmp(back, 1);
}

static struct sigaction installed(int number, void (*handler)(int), int flags)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = flags;
    must_be(sigaction(number, &action, NULL) == 0);
    return action;
}

static void with_information(int number, void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    must_be(sigaction(number, &action, NULL) == 0);
}

// No operation at all until the timer's handler says so.
static void spin(void)
{
    struct itimerval once = {{0, 0}, {0, 30000}};
    installed(SIGALRM, on_signal, 0);
    must_be(setitimer(ITIMER_REAL, &once, NULL) == 0);
    while (!stop)
        ;
}

static void queue(void)
{
    with_information(SIGCHLD, on_value);
    for (int round = 1; round <= 5; round++) {
        union sigval sent = {.sival_int = round * 7};
        must_be(sigqueue(getpid(), SIGCHLD, sent) == 0);
        must_be(fired == round && value == round * 7);
    }
}

static void fault(void)
{
    with_information(SIGSEGV, on_fault);
    for (volatile int round = 0; round < 3; round++) {
        if (!sigsetjmp(back, 1))
            *(volatile int *)16 = 1;
    }
}

// What the program asks for is what it is told, and a handler that runs once does.
static void ask(void)
{
    struct sigaction seen;
    installed(SIGALRM, on_signal, SA_RESETHAND | SA_NODEFER);
    must_be(sigaction(SIGALRM, NULL, &seen) == 0);
    must_be(seen.sa_handler == on_signal && (seen.sa_flags & SA_RESETHAND) && (seen.sa_flags & SA_NODEFER));
    must_be(raise(SIGALRM) == 0);
    must_be(sigaction(SIGALRM, NULL, &seen) == 0);
    must_be(seen.sa_handler == SIG_DFL);
    must_be(signal(SIGALRM, on_signal) == SIG_DFL);
    must_be(raise(SIGALRM) == 0);
    must_be(signal(SIGALRM, SIG_IGN) == on_signal);
    must_be(raise(SIGALRM) == 0);
    must_be(signal(SIGALRM, SIG_DFL) == SIG_IGN);
}

// A process that signals itself has handled it when the call returns.
static void itself(void)
{
    stack_t stack;
    memset(&stack, 0, sizeof stack);
    stack.ss_size = 65536;
    stack.ss_sp = malloc(stack.ss_size);
    must_be(sigaltstack(&stack, NULL) == 0);
    installed(SIGALRM, on_signal, SA_ONSTACK);
    for (int round = 1; round <= 5; round++) {
        must_be(kill(getpid(), SIGALRM) == 0);
        must_be(fired == 2 * round - 1);
        must(pthread_kill(pthread_self(), SIGALRM));
        must_be(fired == 2 * round);
    }
}

static void *sleeping(void *argument)
{
    struct timespec long_time = {50, 0};
    (void)argument;
    must_be(sleep(100) > 50);
    must_be(pause() == -1 && errno == EINTR);
    must_be(nanosleep(&long_time, NULL) == -1 && errno == EINTR);
    return NULL;
}

static void interrupted(void)
{
    pthread_t id;
    installed(SIGALRM, on_signal, 0);
    must(pthread_create(&id, NULL, sleeping, NULL));
    for (int round = 0; round < 3; round++) {
        usleep(60000);
        must(pthread_kill(id, SIGALRM));
    }
    must(pthread_join(id, NULL));
}

// The thread blocks the signal but for the time of the calls that bring their own mask: nothing is blocked then, or all but
// this one.
static void *suspending(void *argument)
{
    struct timespec long_time = {50, 0};
    sigset_t none, others;
    must_be(sigfillset(&others) == 0 && sigdelset(&others, SIGALRM) == 0);
    struct epoll_event event;
    int epoll = epoll_create1(0);
    (void)argument;
    must_be(epoll >= 0 && sigemptyset(&none) == 0);
    must_be(sigsuspend(&none) == -1 && errno == EINTR && fired == 1);
    must_be(ppoll(NULL, 0, &long_time, &others) == -1 && errno == EINTR && fired == 2);
    must_be(pselect(0, NULL, NULL, NULL, &long_time, &none) == -1 && errno == EINTR && fired == 3);
    must_be(epoll_pwait(epoll, &event, 1, 50000, &none) == -1 && errno == EINTR && fired == 4);
    must_be(sigsuspend(&others) == -1 && errno == EINTR && fired == 5);
    close(epoll);
    return NULL;
}

static void suspended(void)
{
    sigset_t set;
    pthread_t id;
    installed(SIGALRM, on_signal, 0);
    must_be(sigemptyset(&set) == 0 && sigaddset(&set, SIGALRM) == 0);
    must(pthread_sigmask(SIG_BLOCK, &set, NULL));
    must(pthread_create(&id, NULL, suspending, NULL));
    for (int round = 1; round <= 5; round++) {
        must(pthread_kill(id, SIGALRM));
        while (fired != round)
            usleep(1000);
    }
    must(pthread_join(id, NULL));
}

// What is let through strikes before the call returns, that of the older functions, too.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void held(void)
{
    sigset_t set;
    installed(SIGALRM, on_signal, 0);
    must_be(sigemptyset(&set) == 0 && sigaddset(&set, SIGALRM) == 0);
    must(pthread_sigmask(SIG_BLOCK, &set, NULL));
    must_be(kill(getpid(), SIGALRM) == 0 && fired == 0);
    must(pthread_sigmask(SIG_UNBLOCK, &set, NULL));
    must_be(fired == 1);
    must_be(sighold(SIGALRM) == 0 && raise(SIGALRM) == 0 && fired == 1);
    must_be(sigrelse(SIGALRM) == 0 && fired == 2);
    int before = sigblock(1 << (SIGALRM - 1));
    must(pthread_kill(pthread_self(), SIGALRM));
    must_be(fired == 2);
    sigsetmask(before);
    must_be(fired == 3);
}

static void *waiting(void *argument)
{
    sigset_t set;
    int number;
    (void)argument;
    must_be(sigemptyset(&set) == 0 && sigaddset(&set, SIGRTMIN) == 0);
    must(sigwait(&set, &number));
    fired = number - SIGRTMIN + 1;
    return NULL;
}

static void waited(void)
{
    sigset_t set;
    pthread_t id;
    must_be(sigemptyset(&set) == 0 && sigaddset(&set, SIGRTMIN) == 0);
    must(pthread_sigmask(SIG_BLOCK, &set, NULL));
    must(pthread_create(&id, NULL, waiting, NULL));
    must(pthread_kill(id, SIGRTMIN));
    must(pthread_join(id, NULL));
}

static void children(void)
{
    installed(SIGCHLD, on_signal, SA_RESTART);
    for (int round = 0; round < 3; round++) {
        int status;
        pid_t child = fork();
        if (child == 0)
            _exit(round);
        must_be(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == round);
    }
    fired = fired > 0;
}

enum { DEEP = 400 };

static void on_deep(int number)
{
    if (++fired < DEEP)
        must(pthread_kill(pthread_self(), number));
}

static void *deepen(void *argument)
{
    must(pthread_kill(pthread_self(), SIGALRM));
    must_be(fired == DEEP);
    return argument;
}

// Handlers within handlers, each in an operation of the one before.
static void deep(void)
{
    pthread_t id;
    installed(SIGALRM, on_deep, SA_NODEFER);
    must(pthread_create(&id, NULL, deepen, NULL));
    must(pthread_join(id, NULL));
}

// spin|queue|fault|ask|itself|interrupted|waited|children|suspended|held|deep|killed|aborted
int main(int argc, char **argv)
{
    const char *how = word(argc, argv, 1, "ask");
    static const struct {
        const char *name;
        void (*run)(void);
    } table[] = {{"spin", spin},     {"queue", queue},   {"fault", fault},
                 {"ask", ask},       {"itself", itself}, {"interrupted", interrupted},
                 {"waited", waited}, {"children", children},
                 {"suspended", suspended},
                 {"held", held},     {"deep", deep}};
    for (unsigned row = 0; row < sizeof table / sizeof *table; row++) {
        if (is(how, table[row].name))
            table[row].run();
    }
    printf("%s %d\n", how, (int)fired);
    must_be(fflush(stdout) == 0);
    if (is(how, "killed")) {
        must_be(kill(getpid(), SIGTERM) == 0);
        pause();
    }
    if (is(how, "aborted")) {
        installed(SIGABRT, on_signal, 0);
        abort();
    }
    return 0;
}
