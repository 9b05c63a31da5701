// A handler writes where it struck, as programs do that are about to fail: a backtrace, on the thread's stack or on
// another one, of an operation, of libc's abort, of a fault. Then it is over, or goes on. It looks at the stack in both
// ways that there are: a table of libc's, and a call for each frame of gcc's library.
#include "../transcript.h"
#include <execinfo.h>
#include <signal.h>
#include <unwind.h>

extern const char __executable_start, etext;
static char alternate[1 << 16];
static volatile int ends;

// How many of the program's frames there are, and where they are; and how many there are of whatever is loaded.
struct seen {
    uint64_t hash;
    int own, all;
};

static void see(struct seen *seen, const char *place)
{
    seen->all++;
    if (place >= &__executable_start && place < &etext) {
        seen->hash = fold(seen->hash, (uint64_t)(place - &__executable_start));
        seen->own++;
    }
}

static void say(const char *how, const struct seen *seen)
{
    dprintf(STDOUT_FILENO, "%s: %d frames, %016llx\n", how, seen->own, (unsigned long long)seen->hash);
}

static _Unwind_Reason_Code see_frame(struct _Unwind_Context *context, void *seen)
{
    if (_Unwind_GetIP(context) != 0)
        see(seen, (const char *)_Unwind_GetIP(context));
    return _URC_NO_REASON;
}

// The first three are the handler's own, what called it, and what that struck.
static _Unwind_Reason_Code see_three(struct _Unwind_Context *context, void *seen)
{
    see_frame(context, seen);
    return ((struct seen *)seen)->all == 3 ? _URC_NORMAL_STOP : _URC_NO_REASON;
}

static void on_signal(int number)
{
    void *frames[64];
    struct seen table = {0}, each = {0}, three = {0};
    int count = backtrace(frames, 64);
    for (int at = 0; at < count; at++)
        see(&table, frames[at]);
    _Unwind_Backtrace(see_frame, &each);
    _Unwind_Backtrace(see_three, &three);
    must_be(table.own == each.own && table.all == each.all && three.all == 3);
    dprintf(STDOUT_FILENO, "signal %d\n", number);
    say("table", &table);
    say("each", &each);
    if (ends)
        _exit(7);
}

static int asks(const char *how, const char *for_what)
{
    return strcmp(how, for_what) == 0;
}

__attribute__((noinline)) static void strikes(const char *how)
{
    if (asks(how, "raise"))
        must_be(raise(SIGUSR1) == 0);
    else if (asks(how, "kill"))
        must_be(kill(getpid(), SIGUSR1) == 0);
    else if (asks(how, "thread"))
        must(pthread_kill(pthread_self(), SIGUSR1));
    else if (asks(how, "alarm"))
        must_be(alarm(1) == 0 && sleep(5) > 0);
    else if (asks(how, "abort"))
        abort();
    else if (asks(how, "fault"))
        *(volatile int *)NULL = 1;
    else
        must_be(0);
}

__attribute__((noinline)) static void *stands_between(void *how)
{
    strikes(how);
    dprintf(STDOUT_FILENO, "goes on\n");
    return NULL;
}

// HOW stack|alternate [worker]
int main(int argc, char **argv)
{
    const int numbers[] = {SIGUSR1, SIGALRM, SIGABRT, SIGSEGV};
    const char *how = word(argc, argv, 1, "raise");
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = asks(word(argc, argv, 2, "stack"), "alternate") ? SA_ONSTACK : 0;
    ends = asks(how, "abort") || asks(how, "fault");
    must_be(sigaltstack(&stack, NULL) == 0);
    for (size_t at = 0; at < sizeof numbers / sizeof *numbers; at++)
        must_be(sigaction(numbers[at], &action, NULL) == 0);
    if (argc > 3) {
        pthread_t thread;
        must(pthread_create(&thread, NULL, stands_between, (void *)how));
        must(pthread_join(thread, NULL));
    } else {
        stands_between((void *)how);
    }
    return 0;
}
