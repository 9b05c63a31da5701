// What is asked of terminals, files, sockets and devices by ioctl.

#include "calls.h"
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/random.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>

// A request that writes so many bytes, in room of just that size.
static void ask(const char *what, int fd, unsigned long request, size_t count)
{
    void *told = room(count);
    printf("%s ", what);
    CALL(ioctl, fd, request, told);
    wrote(what, told, count);
}

static void terminals(void)
{
    struct winsize size = {24, 80, 0, 0};
    int on = 1, off = 0, master = CALL(open, "/dev/ptmx", O_RDWR | O_NOCTTY);
    CALL(ioctl, master, TIOCSPTLCK, &off);
    ask("TIOCGPTN", master, TIOCGPTN, 4);
    ask("TIOCGPTLCK", master, TIOCGPTLCK, 4);
    ask("TIOCGPKT", master, TIOCGPKT, 4);
    ask("TIOCGDEV", master, TIOCGDEV, 4);
    int slave = CALL(ioctl, master, TIOCGPTPEER, O_RDWR | O_NOCTTY);
    CALL(ioctl, master, TIOCSWINSZ, &size);
    ask("TIOCGWINSZ", slave, TIOCGWINSZ, 8);
    ask("TCGETS", slave, TCGETS, 36);
    ask("TCGETS2", slave, 0x802c542a, 44);
    ask("TCGETA", slave, TCGETA, 18);
    ask("TIOCGPGRP", slave, TIOCGPGRP, 4);
    ask("TIOCGSID", slave, TIOCGSID, 4);
    ask("TIOCGETD", slave, TIOCGETD, 4);
    ask("TIOCOUTQ", slave, TIOCOUTQ, 4);
    ask("TIOCGEXCL", slave, TIOCGEXCL, 4);
    ask("TIOCGSOFTCAR", slave, TIOCGSOFTCAR, 4);
    ask("TIOCMGET", slave, TIOCMGET, 4);
    must_be(write(master, "typed\n", 6) == 6);
    ask("FIONREAD", slave, FIONREAD, 4);
    char *line = room(20);
    CALL(read, slave, line, 20);
    wrote("line", line, 20);
    CALL(read, master, line, 20);
    wrote("echo", line, 20);
    CALL(ioctl, master, TIOCPKT, &on);
    CALL(ioctl, slave, TCFLSH, TCIOFLUSH);
    CALL(ioctl, slave, TCXONC, TCOON);
    CALL(ioctl, slave, TIOCNXCL);
    ask("TCGETS", 0, TCGETS, 36);
}

static void files(void)
{
    int fd = open("large", O_RDWR), none = 0;
    ask("FIGETBSZ", fd, FIGETBSZ, 4);
    ask("FIOQSIZE", fd, FIOQSIZE, 8);
    ask("FIONREAD", fd, FIONREAD, 4);
    ask("FS_IOC_GETFLAGS", fd, FS_IOC_GETFLAGS, 4);
    ask("FS_IOC_GETVERSION", fd, FS_IOC_GETVERSION, 4);
    ask("FS_IOC_FSGETXATTR", fd, FS_IOC_FSGETXATTR, 28);
    ask("FS_IOC_GETFSLABEL", fd, FS_IOC_GETFSLABEL, 256);
    ask("FS_IOC_GETFSUUID", fd, 0x80111500, 17);
    ask("FS_IOC_GETFSSYSFSPATH", fd, 0x80811501, 129);
    CALL(ioctl, fd, FIONBIO, &none);
    CALL(ioctl, fd, FIOCLEX);
    CALL(ioctl, fd, FIONCLEX);
    CALL(ioctl, fd, FICLONE, open("small", O_RDONLY));
    struct fiemap *map = room(sizeof *map + 3 * sizeof(struct fiemap_extent));
    for (int flags = 0; flags < 2; flags++) {
        *map = (struct fiemap){.fm_length = ~0ull, .fm_extent_count = 3, .fm_flags = flags ? 0x40000000 : FIEMAP_FLAG_SYNC};
        CALL(ioctl, fd, FS_IOC_FIEMAP, map);
        wrote("extents", map, sizeof *map + 3 * sizeof(struct fiemap_extent));
    }
    unsigned *first = word_of(0);
    CALL(ioctl, fd, FIBMAP, first);
    wrote("first", first, 4);
    int own = open("/proc/self/ns/user", O_RDONLY);
    CALL(ioctl, own, 0xb703 /* NS_GET_NSTYPE */);
    ask("NS_GET_OWNER_UID", own, 0xb704, 4);
    ask("RNDGETENTCNT", open("/dev/urandom", O_RDONLY), RNDGETENTCNT, 4);
}

static void sockets(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq *list = room(8 * sizeof *list), *one = room(sizeof *one);
    struct ifconf *all = room(sizeof *all);
    for (int rooms = 0; rooms < 3; rooms++) {
        *all = (struct ifconf){rooms * 4 * (int)sizeof *list, {rooms ? (char *)list : NULL}};
        CALL(ioctl, fd, SIOCGIFCONF, all);
        printf("  length %d\n", all->ifc_len);
        wrote("interfaces", list, 8 * sizeof *list);
    }
    static const unsigned asked[] = {SIOCGIFFLAGS, SIOCGIFADDR, SIOCGIFNETMASK, SIOCGIFBRDADDR, SIOCGIFDSTADDR, SIOCGIFMETRIC,
                                     SIOCGIFMTU, SIOCGIFHWADDR, SIOCGIFINDEX, SIOCGIFTXQLEN, SIOCGIFMAP};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        strcpy(one->ifr_name, "lo");
        CALL(ioctl, fd, asked[i], one);
        wrote("interface", one, sizeof *one);
    }
    one->ifr_ifindex = 1;
    CALL(ioctl, fd, SIOCGIFNAME, one);
    wrote("name", one, sizeof *one);
    strcpy(one->ifr_name, "none");
    CALL(ioctl, fd, SIOCGIFFLAGS, one);
    wrote("none", one, sizeof *one);
    ask("SIOCGPGRP", fd, 0x8904, 4);
    ask("SIOCATMARK", socket(AF_INET, SOCK_STREAM, 0), 0x8905, 4);
    ask("SIOCOUTQNSD", fd, 0x894b, 4);
    ask("SIOCGSTAMP", fd, 0x8906, 16);
    CALL(ioctl, 999, FIONREAD, one);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    terminals();
    files();
    sockets();
    return 0;
}
