// Sockets: names, messages, options, control data.

#include "calls.h"
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

// Room for a name, with its length in a word of its own.
struct name {
    unsigned char *bytes;
    unsigned *length;
};

static struct name name_of(unsigned length)
{
    return (struct name){room(128), word_of(length)};
}

static void show_name(const char *what, struct name name, unsigned again)
{
    bytes(what, name.length, 4);
    wrote(what, name.bytes, 128);
    *name.length = again;
}

static void streams(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct name name = name_of(128);
    int listener = CALL(socket, AF_INET, SOCK_STREAM, 0);
    CALL(bind, listener, &any, sizeof any);
    CALL(listen, listener, 5);
    socklen_t length = sizeof any;
    must_be(getsockname(listener, (struct sockaddr *)&any, &length) == 0);
    CALL(getsockname, listener, name.bytes, name.length);
    show_name("getsockname", name, 5);
    CALL(getsockname, listener, name.bytes, name.length);
    show_name("getsockname, cut", name, 0);
    CALL(getsockname, listener, name.bytes, name.length);
    show_name("getsockname, none", name, 128);
    int one = CALL(socket, AF_INET, SOCK_STREAM, 0), two = CALL(socket, AF_INET, SOCK_STREAM, 0);
    CALL(connect, one, &any, sizeof any);
    CALL(connect, two, &any, sizeof any);
    int first = CALL(accept, listener, name.bytes, name.length);
    show_name("accept", name, 4);
    CALL(accept4, listener, name.bytes, name.length, SOCK_CLOEXEC);
    show_name("accept4, cut", name, 128);
    CALL(getpeername, one, name.bytes, name.length);
    show_name("getpeername", name, 128);
    CALL(sendto, one, "over there", 10, 0, NULL, 0);
    char *text = room(30);
    CALL(recvfrom, first, text, 4, MSG_PEEK, NULL, NULL);
    wrote("peeked", text, 30);
    CALL(recvfrom, first, text, 30, 0, name.bytes, name.length);
    wrote("received", text, 30);
    show_name("recvfrom", name, 128);
    // A stream has no name to tell: the word stays, and a buffer without one is left alone.
    CALL(recvfrom, first, text, 30, MSG_DONTWAIT, name.bytes, name.length);
    show_name("recvfrom", name, 128);
    CALL(shutdown, one, SHUT_WR);
    CALL(recvfrom, first, text, 30, 0, NULL, name.length);
    wrote("the end", text, 30);
    show_name("recvfrom", name, 128);
    // Options of any length.
    unsigned *value = room(300), *stated = word_of(300);
    CALL(getsockopt, first, SOL_TCP, TCP_INFO, value, stated);
    bytes("length", stated, 4);
    wrote("TCP_INFO", value, 300);
    *stated = 2;
    CALL(getsockopt, first, SOL_SOCKET, SO_RCVBUF, value, stated);
    bytes("length", stated, 4);
    wrote("SO_RCVBUF", value, 300);
    *stated = 64;
    CALL(getsockopt, first, SOL_TCP, TCP_ZEROCOPY_RECEIVE, value, stated);
    CALL(getsockopt, first, 99, 99, value, stated);
    CALL(setsockopt, first, SOL_SOCKET, SO_KEEPALIVE, word_of(1), 4);
}

static void filters(int fd)
{
    struct sock_filter program[3] = {{BPF_LD | BPF_LEN, 0, 0, 0}, {BPF_ALU | BPF_ADD, 0, 0, 1}, {BPF_RET | BPF_A, 0, 0, 0}};
    struct sock_fprog attached = {3, program};
    CALL(setsockopt, fd, SOL_SOCKET, SO_ATTACH_FILTER, &attached, sizeof attached);
    unsigned *count = word_of(0);
    void *told = room(8 * 5);
    CALL(getsockopt, fd, SOL_SOCKET, SO_GET_FILTER, told, count);
    bytes("count", count, 4);
    wrote("filter", told, 8 * 5);
    *count = 5;
    CALL(getsockopt, fd, SOL_SOCKET, SO_GET_FILTER, told, count);
    bytes("count", count, 4);
    wrote("filter", told, 8 * 5);
    CALL(setsockopt, fd, SOL_SOCKET, SO_DETACH_FILTER, count, 4);
    unsigned char *label = room(64);
    *count = 3;
    CALL(getsockopt, fd, SOL_SOCKET, SO_PEERSEC, label, count);
    bytes("count", count, 4);
    wrote("label", label, 64);
    CALL(getsockopt, fd, SOL_SOCKET, 59 /* SO_PEERGROUPS */, label, count);
    bytes("count", count, 4);
    wrote("groups", label, 64);
}

static void show_message(struct msghdr *message, void *name, char *text, void *control)
{
    printf("  name %u control %zu flags %x\n", message->msg_namelen, message->msg_controllen, message->msg_flags);
    wrote("name", name, 110);
    wrote("text", text, 40);
    wrote("control", control, 128);
}

static void control(void)
{
    int *pair = room(8);
    CALL(socketpair, AF_UNIX, SOCK_DGRAM, 0, pair);
    bytes("pair", pair, 8);
    CALL(setsockopt, pair[1], SOL_SOCKET, SO_PASSCRED, word_of(1), 4);
    CALL(setsockopt, pair[1], SOL_SOCKET, SO_TIMESTAMP, word_of(1), 4);
    char space[CMSG_SPACE(8)] = "";
    struct iovec out[2] = {{"half", 4}, {" and half", 9}};
    struct msghdr sent = {.msg_iov = out, .msg_iovlen = 2, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *header = CMSG_FIRSTHDR(&sent);
    *header = (struct cmsghdr){CMSG_LEN(8), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(header), (int[]){0, 1}, 8);
    char *text = room(40), *told = room(128), *name = room(110);
    struct iovec in[3] = {{text, 3}, {text + 3, 0}, {text + 3, 37}};
    struct msghdr *received = room(sizeof *received);
    unsigned rooms[][2] = {{128, 13}, {40, 13}, {0, 13}, {128, 2}};
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        CALL(sendmsg, pair[0], &sent, 0);
        *received = (struct msghdr){name, 110, in, 3, told, rooms[i][0], 0};
        in[2].iov_len = rooms[i][1];
        CALL(recvmsg, pair[1], received, 0);
        show_message(received, name, text, told);
    }
    *received = (struct msghdr){name, 110, in, 3, told, 128, 0};
    CALL(recvmsg, pair[1], received, MSG_DONTWAIT);
    show_message(received, name, text, told);
    // MSG_TRUNC: the result is more than there is room for.
    CALL(sendmsg, pair[0], &sent, 0);
    *received = (struct msghdr){NULL, 0, in, 1, NULL, 0, 0};
    CALL(recvmsg, pair[1], received, MSG_TRUNC);
    show_message(received, name, text, told);
    CALL(sendto, pair[0], "a datagram", 10, 0, NULL, 0);
    CALL(recvfrom, pair[1], text, 4, MSG_TRUNC, NULL, NULL);
    wrote("text", text, 40);
    filters(pair[1]);
}

enum { MANY = 100, EACH = 6 };

// More messages in one call than there are bytes to remember their rooms by.
static void many(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int from = socket(AF_INET, SOCK_DGRAM, 0), to = socket(AF_INET, SOCK_DGRAM, 0);
    must_be(bind(to, (struct sockaddr *)&any, sizeof any) == 0);
    socklen_t length = sizeof any;
    must_be(getsockname(to, (struct sockaddr *)&any, &length) == 0);
    must_be(connect(from, (struct sockaddr *)&any, sizeof any) == 0);
    struct mmsghdr *headers = room(MANY * sizeof *headers);
    char *text = room(MANY * EACH), *names = room(MANY * 16);
    struct iovec parts[MANY];
    memset(headers, 0, MANY * sizeof *headers);
    for (int i = 0; i < MANY; i++) {
        parts[i] = (struct iovec){text + i * EACH, 1 + i % EACH};
        headers[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    }
    CALL(sendmmsg, from, headers, MANY, 0);
    for (int i = 0; i < MANY; i++) {
        printf("%u%s", headers[i].msg_len, i == MANY - 1 ? "\n" : " ");
        parts[i].iov_len = EACH;
        headers[i].msg_hdr.msg_name = names + i * 16;
        // Some names are cut.
        headers[i].msg_hdr.msg_namelen = i % 3 ? 16 : 3;
    }
    memset(text, PATTERN, MANY * EACH);
    struct timespec *limit = copy_of(&(struct timespec){5, 0}, sizeof *limit);
    CALL(recvmmsg, to, headers, MANY, MSG_DONTWAIT, limit);
    bytes("limit", limit, sizeof *limit);
    for (int i = 0; i < MANY; i++)
        printf("%u:%u:%x%s", headers[i].msg_len, headers[i].msg_hdr.msg_namelen, headers[i].msg_hdr.msg_flags,
               i == MANY - 1 ? "\n" : " ");
    wrote("text", text, MANY * EACH);
    wrote("names", names, MANY * 16);
    CALL(recvmmsg, to, headers, MANY, MSG_DONTWAIT, NULL);
    wrote("names", names, MANY * 16);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    streams();
    control();
    many();
    return 0;
}
