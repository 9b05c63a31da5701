// Clocks, sleeps and timers.

#include "calls.h"
#include <signal.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/timex.h>

static void on_signal(int signal)
{
    (void)signal;
}

static void clocks(void)
{
    struct timespec *now = room(sizeof *now);
    struct timeval *day = room(sizeof *day);
    struct timezone *zone = room(sizeof *zone);
    long *seconds = room(8);
    CALL(time, seconds);
    wrote("time", seconds, 8);
    CALL(time, NULL);
    CALL(gettimeofday, day, zone);
    wrote("day", day, sizeof *day);
    wrote("zone", zone, sizeof *zone);
    static const int all[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID,
                              CLOCK_MONOTONIC_RAW, CLOCK_REALTIME_COARSE, CLOCK_BOOTTIME, CLOCK_TAI, 77};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        CALL(clock_gettime, all[i], now);
        wrote("now", now, sizeof *now);
        CALL(clock_getres, all[i], now);
        wrote("step", now, sizeof *now);
        // Through the kernel's own page of functions.
        int result = clock_gettime(all[i], now);
        printf("%d\n", result);
        wrote("now", now, sizeof *now);
    }
    CALL(settimeofday, NULL, NULL);
    CALL(clock_settime, 77, now);
    struct timex *state = room(sizeof *state);
    state->modes = 0;
    CALL(adjtimex, state);
    wrote("adjtimex", state, sizeof *state);
    state->modes = 0;
    CALL(clock_adjtime, CLOCK_REALTIME, state);
    wrote("clock_adjtime", state, sizeof *state);
    struct tms *used = room(sizeof *used);
    CALL(times, used);
    wrote("times", used, sizeof *used);
}

// A timer that signals ends a sleep.
static void sleeps(void)
{
    struct timespec span = {0, 2000000}, long_span = {100, 0}, *left = room(sizeof *left);
    struct itimerval soon = {{0, 0}, {0, 20000}}, far = {{1, 2}, {3, 4}}, *before = room(sizeof *before);
    CALL(nanosleep, &span, left);
    wrote("left", left, sizeof *left);
    CALL(setitimer, ITIMER_REAL, &soon, before);
    wrote("before", before, sizeof *before);
    CALL(nanosleep, &long_span, left);
    wrote("left", left, sizeof *left);
    CALL(setitimer, ITIMER_REAL, &soon, NULL);
    CALL(clock_nanosleep, CLOCK_MONOTONIC, 0, &long_span, left);
    wrote("left", left, sizeof *left);
    must_be(clock_gettime(CLOCK_MONOTONIC, &span) == 0);
    span.tv_sec += 100;
    CALL(setitimer, ITIMER_REAL, &soon, NULL);
    CALL(clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &span, left);
    wrote("left", left, sizeof *left);
    CALL(setitimer, ITIMER_VIRTUAL, &far, NULL);
    CALL(getitimer, ITIMER_VIRTUAL, before);
    wrote("virtual", before, sizeof *before);
    CALL(getitimer, ITIMER_REAL, before);
    wrote("real", before, sizeof *before);
    CALL(alarm, 100);
    CALL(alarm, 0);
}

static void timers(void)
{
    struct sigevent none = {.sigev_notify = SIGEV_NONE};
    struct itimerspec span = {{0, 100000}, {50, 1000}}, *before = room(sizeof *before);
    int *timer = room(4);
    CALL(timer_create, CLOCK_MONOTONIC, &none, timer);
    bytes("timer", timer, 4);
    CALL(timer_settime, *timer, 0, &span, before);
    wrote("before", before, sizeof *before);
    CALL(timer_gettime, *timer, before);
    wrote("now", before, sizeof *before);
    CALL(timer_getoverrun, *timer);
    CALL(timer_delete, *timer);
    CALL(timer_delete, *timer);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGALRM, on_signal);
    clocks();
    sleeps();
    timers();
    return 0;
}
