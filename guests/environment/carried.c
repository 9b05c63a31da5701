// Threads that hand plain variables over by what goes through descriptors: a pipe, an
// eventfd, a socket, with and without waiting for it to be ready; by libc's functions for
// them, by streams, by `syscall` and by the instruction itself. No lock guards them.
#include "../transcript.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

static int rounds;
static int givers;
static int way[2];
static int answers[MOST_THREADS];
static const char *how;
static unsigned long given[MOST_THREADS];
static unsigned long returned[MOST_THREADS];

static FILE *in, *out;

// With a comparison behind the instruction as in libc, or a `ret`.
__attribute__((noinline)) static long checked_call(long number, long first, long second, long third)
{
    long result;
    __asm__ volatile("syscall; cmp $-4096,%%rax; jbe 1f; mov $-1,%%rax; 1:"
                     : "=a"(result) : "a"(number), "D"(first), "S"(second), "d"(third) : "rcx", "r11", "memory", "cc");
    return result;
}

long bare_call(long number, long first, long second, long third);
__asm__(".text; .p2align 5; bare_call: mov %rdi, %rax; mov %rsi, %rdi; mov %rdx, %rsi; mov %rcx, %rdx; syscall; ret;"
        ".p2align 5");

static long by_number(long number, long first, long second, long third)
{
    if (is(how, "checked"))
        return checked_call(number, first, second, third);
    if (is(how, "bare"))
        return bare_call(number, first, second, third);
    return syscall(number, first, second, third);
}

static int is_by_number(void)
{
    return is(how, "checked") || is(how, "bare") || is(how, "syscall");
}

static void give(unsigned char name)
{
    if (is(how, "socket"))
        must_be(send(way[1], &name, 1, 0) == 1);
    else if (is(how, "stream"))
        must_be(putc(name, out) == name && fflush(out) == 0);
    else if (is(how, "unbuffered"))
        must_be(fwrite(&name, 1, 1, out) == 1);
    else if (is(how, "line"))
        must_be(dprintf(way[1], "%d\n", name) > 0);
    else if (is_by_number())
        must_be(by_number(SYS_write, way[1], (long)&name, 1) == 1);
    else
        must_be(write(way[1], &name, 1) == 1);
}

static unsigned char take(void)
{
    unsigned char name = 0;
    char line[20];
    if (is(how, "stream"))
        name = (unsigned char)getc(in);
    else if (is(how, "unbuffered"))
        must_be(fread(&name, 1, 1, in) == 1);
    else if (is(how, "line"))
        name = (unsigned char)atoi(fgets(line, sizeof line, in));
    else if (is_by_number())
        must_be(by_number(SYS_read, way[0], (long)&name, 1) == 1);
    else
        must_be(read(way[0], &name, 1) == 1);
    return name;
}

static void give_back(int who)
{
    uint64_t one = 1;
    if (is(how, "line"))
        must_be(eventfd_write(answers[who], one) == 0);
    else if (is_by_number())
        must_be(by_number(SYS_write, answers[who], (long)&one, sizeof one) == sizeof one);
    else
        must_be(write(answers[who], &one, sizeof one) == sizeof one);
}

static void take_back(int who)
{
    eventfd_t count;
    if (is(how, "line"))
        must_be(eventfd_read(answers[who], &count) == 0);
    else if (is_by_number())
        must_be(by_number(SYS_read, answers[who], (long)&count, sizeof count) == sizeof count);
    else
        must_be(read(answers[who], &count, sizeof count) == sizeof count);
}

static void *giver(void *argument)
{
    int who = (int)(intptr_t)argument;
    unsigned long sum = 0;
    for (int round = 0; round < rounds; round++) {
        jitter();
        given[who] = sum * 31 + (unsigned long)round;
        give((unsigned char)who);
        take_back(who);
        sum = returned[who];
    }
    return (void *)sum;
}

static void wait_until_ready(int poller)
{
    struct pollfd ready = { .fd = way[0], .events = POLLIN };
    struct epoll_event event;
    if (is(how, "poll"))
        must_be(poll(&ready, 1, -1) == 1);
    if (is(how, "epoll"))
        must_be(epoll_wait(poller, &event, 1, -1) == 1);
}

// WAY GIVERS ROUNDS
int main(int argc, char **argv)
{
    pthread_t ids[MOST_THREADS];
    struct transcript transcript = { 0 };
    struct epoll_event interest = { .events = EPOLLIN };
    int poller = epoll_create1(0);
    unsigned long hash = 0;
    how = argc > 1 ? argv[1] : "pipe";
    givers = number(argc, argv, 2, 3);
    rounds = number(argc, argv, 3, 50);
    must_be((is(how, "socket") ? socketpair(AF_UNIX, SOCK_STREAM, 0, way) : pipe(way)) == 0);
    must_be(poller >= 0 && epoll_ctl(poller, EPOLL_CTL_ADD, way[0], &interest) == 0);
    in = fdopen(way[0], "r");
    out = fdopen(way[1], "w");
    must_be(in && out && (!is(how, "unbuffered") || setvbuf(out, NULL, _IONBF, 0) == 0));
    for (int who = 0; who < givers; who++) {
        must_be((answers[who] = eventfd(0, 0)) >= 0);
        must(pthread_create(&ids[who], NULL, giver, (void *)(intptr_t)who));
    }
    for (int round = 0; round < rounds * givers; round++) {
        wait_until_ready(poller);
        unsigned char who = take();
        note(&transcript, who);
        hash = hash * 1000003 + given[who];
        returned[who] = hash & 0xFFFF;
        give_back(who);
    }
    for (int who = 0; who < givers; who++) {
        void *sum;
        must(pthread_join(ids[who], &sum));
        printf("sum %lu\n", (unsigned long)sum);
    }
    show("order", &transcript);
    printf("hash %lx\n", hash);
    return 0;
}
