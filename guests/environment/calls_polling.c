// Waiting for descriptors, with time limits that are and that are not told what is left.

#include "calls.h"
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>

static int ends[2], quiet[2];

// Three sets of so many bytes, with these descriptors in the first.
static unsigned char *sets(size_t each, int one, int two)
{
    unsigned char *sets = room(3 * each);
    memset(sets, 0, 3 * each);
    sets[one / 8] |= 1 << one % 8;
    sets[two / 8] |= 1 << two % 8;
    return sets;
}

static void selects(void)
{
    struct timeval span = {3, 5}, none = {0, 0}, *limit = copy_of(&span, sizeof span);
    // Whole words of eight bytes are read and written.
    unsigned char *three = sets(8, ends[0], quiet[0]);
    CALL(select, 20, three, three + 8, three + 16, limit);
    wrote("sets", three, 24);
    wrote("limit", limit, sizeof span);
    three = sets(8, quiet[0], quiet[0]);
    CALL(select, 20, three, NULL, three + 8, copy_of(&none, sizeof none));
    wrote("sets", three, 24);
    *limit = (struct timeval){0, 2000};
    CALL(select, 0, NULL, NULL, NULL, limit);
    wrote("limit", limit, sizeof span);
    // A limit that can't be written, as of a constant.
    static const struct timeval constant = {0, 1500};
    three = sets(8, ends[0], quiet[0]);
    CALL(select, 20, three, NULL, NULL, &constant);
    wrote("sets", three, 24);
    CALL(select, 0, NULL, NULL, NULL, &constant);
    // A descriptor that is not there, and memory that is not.
    three = sets(8, 60, ends[0]);
    CALL(select, 64, three, NULL, NULL, &constant);
    wrote("sets", three, 24);
    CALL(select, 64, (char *)1, NULL, NULL, &constant);
    // More bits than the process has room for descriptors.
    three = sets(128, ends[0], quiet[0]);
    CALL(select, 1000, three, three + 128, NULL, &constant);
    wrote("sets", three, 3 * 128);
    // Of bits beyond the table of descriptors the kernel reads and writes nothing.
    three = sets(8 * 64, ends[0], quiet[0]);
    CALL(select, 1 << 20, three, NULL, NULL, &constant);
    wrote("sets", three, 3 * 8 * 64);
}

static void longer_selects(void)
{
    struct timespec span = {2, 7}, *limit = copy_of(&span, sizeof span);
    sigset_t mask;
    sigfillset(&mask);
    struct {
        const sigset_t *set;
        size_t bytes;
    } with = {&mask, 8};
    unsigned char *three = sets(8, ends[0], quiet[0]);
    CALL(pselect6, 20, three, three + 8, NULL, limit, &with);
    wrote("sets", three, 24);
    wrote("limit", limit, sizeof span);
    static const struct timespec constant = {0, 1500};
    CALL(pselect6, 0, NULL, NULL, NULL, &constant, &with);
    CALL(pselect6, 0, NULL, NULL, NULL, &constant, NULL);
}

static void polls(void)
{
    struct pollfd list[3] = {{ends[0], POLLIN, 0x55}, {quiet[0], POLLIN, 0x55}, {4000, POLLIN, 0x55}};
    struct pollfd *asked = copy_of(list, sizeof list);
    CALL(poll, asked, 3, 1);
    wrote("poll", asked, sizeof list);
    memcpy(asked, list, sizeof list);
    CALL(poll, asked + 1, 1, 1);
    wrote("poll", asked, sizeof list);
    struct timespec span = {2, 7}, *limit = copy_of(&span, sizeof span);
    sigset_t mask;
    sigemptyset(&mask);
    memcpy(asked, list, sizeof list);
    CALL(ppoll, asked, 3, limit, &mask, 8);
    wrote("ppoll", asked, sizeof list);
    wrote("limit", limit, sizeof span);
    static const struct timespec constant = {0, 1500};
    memcpy(asked, list, sizeof list);
    CALL(ppoll, asked + 1, 1, &constant, NULL, 8);
    wrote("ppoll", asked, sizeof list);
    CALL(poll, asked, 100000, 0);
}

static void events(void)
{
    struct epoll_event wanted = {EPOLLIN, {.u64 = 0x1122334455667788}}, *told = room(4 * sizeof *told);
    int fd = CALL(epoll_create1, EPOLL_CLOEXEC), other = CALL(epoll_create, 1);
    CALL(epoll_ctl, fd, EPOLL_CTL_ADD, ends[0], &wanted);
    CALL(epoll_ctl, fd, EPOLL_CTL_ADD, quiet[0], &wanted);
    CALL(epoll_ctl, fd, EPOLL_CTL_ADD, ends[0], &wanted);
    CALL(epoll_ctl, fd, EPOLL_CTL_ADD, other, &wanted);
    CALL(epoll_wait, fd, told, 4, 10);
    wrote("epoll_wait", told, 4 * sizeof *told);
    sigset_t mask;
    sigfillset(&mask);
    CALL(epoll_pwait, fd, told, 1, -1, &mask, 8);
    wrote("epoll_pwait", told, 4 * sizeof *told);
    static const struct timespec constant = {0, 1500};
    CALL(epoll_pwait2, fd, told, 4, &constant, &mask, 8);
    wrote("epoll_pwait2", told, 4 * sizeof *told);
    CALL(epoll_pwait2, other, told, 4, &constant, NULL, 8);
    wrote("epoll_pwait2", told, 4 * sizeof *told);
    CALL(epoll_wait, fd, told, 0, 10);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    must_be(pipe(ends) == 0 && pipe(quiet) == 0);
    must_be(write(ends[1], "something", 9) == 9);
    selects();
    longer_selects();
    polls();
    events();
    return 0;
}
