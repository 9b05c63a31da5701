// Signals strike threads that are about to begin or to end: those sent to the process, so each finds a thread that is
// still there and is answered, whether it strikes one before its start routine, within it, behind it, or among its
// destructors.
#include "../transcript.h"
#include <signal.h>
#include <sys/wait.h>

static int answers[2];
static pthread_key_t key;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread uint64_t self;
// One signal is on its way at a time, and who starts and joins the threads does not get it.
static struct transcript struck;

static void on_signal(int number)
{
    note(&struck, self);
    must_be(number == SIGUSR1 && write(answers[1], "", 1) == 1);
}

static void compute(void)
{
    for (volatile unsigned spin = self * 7919 % 4000; spin > 0;) {
        unsigned left = spin;
        spin = left - 1;
    }
}

static void destroy(void *value)
{
    compute();
    if (self % 3 == 0) {
        must(pthread_mutex_lock(&lock));
        must(pthread_mutex_unlock(&lock));
    }
    // One round more.
    if (self % 5 == 0 && value == &key)
        must(pthread_setspecific(key, &self));
    compute();
}

static void *run(void *argument)
{
    self = (uint64_t)argument;
    compute();
    if (self % 2 == 0)
        must(pthread_setspecific(key, &key));
    return NULL;
}

static void send(unsigned long count)
{
    for (unsigned long i = 0; i < count; i++) {
        char answer;
        struct timespec pause = { 0, (long)(20000 + i * 7919 % 50000) };
        must_be(nanosleep(&pause, NULL) == 0);
        must_be(kill(getppid(), SIGUSR1) == 0);
        must_be(read(answers[0], &answer, 1) == 1);
    }
    _exit(0);
}

// COUNT [nested]: the handler does not keep its own signal away
int main(int argc, char **arguments)
{
    must_be(argc >= 2);
    unsigned long count = (unsigned long)atol(arguments[1]);
    int flags = is(word(argc, arguments, 2, ""), "nested") ? SA_RESTART | SA_NODEFER : SA_RESTART;
    sigset_t set, none;
    must_be(sigemptyset(&none) == 0 && sigemptyset(&set) == 0 && sigaddset(&set, SIGUSR1) == 0);
    must_be(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = flags };
    must_be(sigaction(SIGUSR1, &action, NULL) == 0);
    must_be(pipe(answers) == 0);
    must(pthread_key_create(&key, destroy));
    pthread_attr_t attributes;
    must(pthread_attr_init(&attributes));
    must(pthread_attr_setsigmask_np(&attributes, &none));
    // What else goes with the mask.
    cpu_set_t processors, found;
    must_be(sched_getaffinity(0, sizeof processors, &processors) == 0);
    must(pthread_attr_setaffinity_np(&attributes, sizeof processors, &processors));
    pid_t child = fork();
    must_be(child >= 0);
    if (child == 0)
        send(count);
    uint64_t threads = 0;
    while (struck.effects < count) {
        pthread_t thread;
        threads++;
        must(pthread_create(&thread, &attributes, run, (void *)threads));
        must(pthread_join(thread, NULL));
    }
    int status;
    must_be(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    sigset_t mask;
    must(pthread_attr_getsigmask_np(&attributes, &mask));
    must(pthread_attr_getaffinity_np(&attributes, sizeof found, &found));
    must_be(sigismember(&mask, SIGUSR1) == 0 && CPU_EQUAL(&processors, &found));
    must(pthread_attr_destroy(&attributes));
    printf("%llu threads\n", (unsigned long long)threads);
    show("struck", &struck);
    return 0;
}
