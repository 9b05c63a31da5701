// Ways for a threaded program to end. The one that ends it does so while it owns
// the mutex, having printed what happened so far, so nobody gets in behind it.
#include "../rounds.h"
#include <signal.h>
#include <sys/resource.h>

static const char *how;
static int *volatile nowhere;

static _Noreturn void end(int who)
{
    show("order", &transcript);
    fflush(stdout);
    if (is(how, "exit"))
        exit(10 + who);
    else if (is(how, "_exit"))
        _exit(10 + who);
    else if (is(how, "quick_exit"))
        quick_exit(10 + who);
    else if (is(how, "abort"))
        abort();
    else if (is(how, "segv"))
        *nowhere = 1;
    else if (is(how, "kill"))
        must_be(kill(getpid(), SIGKILL) == 0);
    else if (is(how, "term"))
        must_be(raise(SIGTERM) == 0);
    for (;;)
        pause_for(1000000);
}

static void on_exit_print(void)
{
    puts("at exit");
}

static void *goes_on(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (;;) {
        must(pthread_mutex_lock(&mutex));
        note(&transcript, who);
        if (transcript.effects == 300)
            end(who % 4);
        must(pthread_mutex_unlock(&mutex));
        jitter();
    }
}

// For as long as the clock says, which is another time in a replay.
static void compute(void)
{
    struct timespec now, end;
    must_be(clock_gettime(CLOCK_MONOTONIC, &end) == 0);
    end.tv_nsec = end.tv_nsec / 100 % 50 * 1000000;
    do {
        must_be(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
    } while (now.tv_nsec < end.tv_nsec);
}

static void *late(void *argument)
{
    compute();
    must(pthread_mutex_lock(&mutex));
    must(pthread_mutex_unlock(&mutex));
    return argument;
}

// What others do before the end is all that it has to wait for, and each takes its time.
static _Noreturn void end_behind(int threads)
{
    pthread_t id;
    rounds = 100;
    crew(threads, worker);
    for (int who = 0; who < threads; who++)
        must(pthread_create(&id, NULL, late, NULL));
    compute();
    end(0);
}

// THREADS exit|_exit|quick_exit|abort|segv|kill|term worker|main|behind
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    how = word(argc, argv, 2, "exit");
    int in_main = is(word(argc, argv, 3, "worker"), "main");
    pthread_t id;
    struct rlimit none = {0, 0};
    must_be(setrlimit(RLIMIT_CORE, &none) == 0);
    must_be(atexit(on_exit_print) == 0);
    must_be(at_quick_exit(on_exit_print) == 0);
    if (is(word(argc, argv, 3, "worker"), "behind"))
        end_behind(threads);
    for (int who = 0; who < threads; who++)
        must(pthread_create(&id, NULL, goes_on, (void *)(intptr_t)who));
    if (!in_main)
        must(pthread_join(id, NULL));
    pause_for(500000);
    must(pthread_mutex_lock(&mutex));
    end(0);
}
