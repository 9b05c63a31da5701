// Files and descriptors: reading, writing, duplicating, locking.

#include "calls.h"
#include <linux/openat2.h>
#include <sys/file.h>

static void reading(int fd)
{
    char *text = room(700), *other = room(5);
    struct iovec parts[3] = {{other, 5}, {NULL, 0}, {text, 700}};
    CALL(read, fd, text, 7);
    wrote("read", text, 700);
    CALL(pread64, fd, text, 700, 100);
    wrote("pread64", text, 700);
    CALL(readv, fd, parts, 3);
    wrote("readv", other, 5);
    wrote("readv", text, 700);
    CALL(preadv, fd, parts, 3, 1000, 0);
    wrote("preadv", other, 5);
    wrote("preadv", text, 700);
    CALL(preadv2, fd, parts, 3, -1, -1, 0);
    wrote("preadv2", other, 5);
    wrote("preadv2", text, 700);
    CALL(read, fd, (char *)1, 7);
    // What was read before memory ends.
    CALL(pread64, fd, text + 690, 20, 0);
    wrote("at the end", text, 700);
    parts[2] = (struct iovec){(void *)1, 700};
    CALL(preadv, fd, parts, 3, 3, 0);
    wrote("before nowhere", other, 5);
    CALL(lseek, fd, 0, SEEK_END);
    CALL(read, fd, text, 700);
    wrote("at the end", text, 700);
    char *large = room(500000);
    CALL(pread64, fd, large, 500000, 17);
    wrote("large", large, 500000);
    CALL(readahead, fd, 0, 1 << 16);
    CALL(fadvise64, fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    struct {
        uint64_t from, length;
    } range = {0, 1 << 20};
    uint64_t *cached = room(40);
    CALL(cachestat, fd, &range, cached, 0);
    wrote("cachestat", cached, 40);
}

static void writing(void)
{
    char *text = room(40);
    struct iovec parts[2] = {{"one", 3}, {"two", 3}};
    int fd = CALL(open, "made", O_CREAT | O_RDWR | O_EXCL, 0600);
    CALL(write, fd, "zero", 4);
    CALL(pwrite64, fd, "there", 5, 10);
    CALL(writev, fd, parts, 2);
    CALL(pwritev, fd, parts, 2, 20, 0);
    CALL(pwritev2, fd, parts, 2, -1, -1, 0);
    CALL(pread64, fd, text, 40, 0);
    wrote("all of it", text, 40);
    CALL(fallocate, fd, 0, 0, 100000);
    CALL(ftruncate, fd, 11);
    CALL(fsync, fd);
    CALL(fdatasync, fd);
    CALL(sync_file_range, fd, 0, 0, 2);
    CALL(syncfs, fd);
    CALL(flock, fd, LOCK_EX | LOCK_NB);
    CALL(truncate, "made", 6);
    CALL(lseek, fd, 0, SEEK_END);
    CALL(close, fd);
    CALL(close, fd);
    CALL(write, fd, "nowhere", 7);
    CALL(creat, "made too", 0644);
    CALL(open, "made too", O_CREAT | O_EXCL | O_RDWR, 0644);
}

static void moving(int from)
{
    char *text = room(60);
    int64_t at[2] = {3, 5}, *in = copy_of(&at[0], 8), *out = copy_of(&at[1], 8);
    int to = CALL(openat, AT_FDCWD, "copy", O_CREAT | O_RDWR, 0600);
    CALL(copy_file_range, from, in, to, out, 20, 0);
    bytes("from", in, 8);
    bytes("to", out, 8);
    CALL(copy_file_range, from, NULL, to, NULL, 20, 0);
    CALL(sendfile, to, from, in, 11);
    bytes("from", in, 8);
    CALL(sendfile, to, from, NULL, 11);
    CALL(sendfile, 9999, from, in, 11);
    bytes("from", in, 8);
    CALL(pread64, to, text, 60, 0);
    wrote("copied", text, 60);
}

static void duplicating(int fd)
{
    struct open_how how = {O_RDONLY | O_CLOEXEC, 0, RESOLVE_BENEATH};
    int copy = CALL(dup, fd);
    CALL(dup2, fd, copy + 5);
    CALL(dup3, fd, copy + 6, O_CLOEXEC);
    CALL(dup3, fd, fd, 0);
    CALL(openat2, AT_FDCWD, "small", &how, sizeof how);
    CALL(openat2, AT_FDCWD, "/etc/passwd", &how, sizeof how);
    CALL(close_range, copy + 5, copy + 6, 0);
    CALL(close_range, copy, copy, 4);
    CALL(open, "nothing", O_RDONLY);
    CALL(open, (char *)1, O_RDONLY);
    // Output goes by the descriptor, whatever its number.
    copy = CALL(dup, 1);
    fflush(stdout);
    CALL(dup2, copy, copy + 9);
    struct iovec parts[2] = {{"by ", 3}, {"another descriptor\n", 19}};
    fflush(stdout);
    CALL(writev, copy + 9, parts, 2);
    CALL(write, copy, "and one more\n", 13);
    fflush(stdout);
    int64_t at = 0;
    CALL(sendfile, 1, fd, &at, 10);
    CALL(copy_file_range, fd, &at, copy, NULL, 10, 0);
    CALL(splice, fd, &at, copy, NULL, 10, 0);
}

static void commands(int fd)
{
    struct flock64 region = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 3, .l_len = 4}, *told;
    int other = CALL(open, "small", O_RDWR), copy;
    CALL(fcntl, fd, F_GETFD, 0);
    CALL(fcntl, fd, F_SETFD, FD_CLOEXEC);
    CALL(fcntl, fd, F_GETFL, 0);
    CALL(fcntl, fd, F_SETFL, O_NONBLOCK);
    copy = CALL(fcntl, fd, F_DUPFD, 100);
    CALL(fcntl, copy, F_DUPFD_CLOEXEC, 200);
    CALL(fcntl, other, F_OFD_SETLK, &region);
    told = copy_of(&region, sizeof region);
    CALL(fcntl, fd, F_OFD_GETLK, told);
    bytes("lock", told, sizeof region);
    CALL(fcntl, fd, F_GETLK, told);
    bytes("lock", told, sizeof region);
    region.l_type = F_UNLCK;
    CALL(fcntl, other, F_OFD_SETLK, &region);
    CALL(fcntl, other, F_SETLK, &region);
    CALL(fcntl, other, F_SETLKW, &region);
    CALL(fcntl, other, F_OFD_SETLKW, &region);
    CALL(fcntl, fd, F_SETOWN, getpid());
    CALL(fcntl, fd, F_GETOWN, 0);
    struct f_owner_ex owner = {F_OWNER_TID, getpid()}, *owned = room(sizeof owner);
    CALL(fcntl, fd, F_SETOWN_EX, &owner);
    CALL(fcntl, fd, F_GETOWN_EX, owned);
    wrote("owner", owned, sizeof owner);
    unsigned *users = room(8);
    CALL(fcntl, fd, 17 /* F_GETOWNER_UIDS */, users);
    wrote("users", users, 8);
    CALL(fcntl, fd, F_SETSIG, 0);
    CALL(fcntl, fd, F_GETSIG, 0);
    CALL(fcntl, fd, F_GETLEASE, 0);
    CALL(fcntl, fd, F_SETLEASE, F_UNLCK);
    CALL(fcntl, fd, F_NOTIFY, 0);
    CALL(fcntl, fd, 1027 /* F_DUPFD_QUERY */, copy);
    CALL(fcntl, fd, 1028 /* F_CREATED_QUERY */, 0);
    CALL(fcntl, fd, 1029 /* F_CANCELLK */, &region);
    uint64_t *hint = room(8);
    CALL(fcntl, fd, F_GET_RW_HINT, hint);
    wrote("hint", hint, 8);
    *hint = 2;
    CALL(fcntl, fd, F_SET_RW_HINT, hint);
    CALL(fcntl, fd, F_GET_FILE_RW_HINT, hint);
    wrote("hint", hint, 8);
    CALL(fcntl, fd, F_SET_FILE_RW_HINT, hint);
    int sealed = CALL(memfd_create, "sealed", MFD_ALLOW_SEALING);
    CALL(fcntl, sealed, F_ADD_SEALS, F_SEAL_GROW);
    CALL(fcntl, sealed, F_GET_SEALS, 0);
    CALL(fcntl, fd, F_GETPIPE_SZ, 0);
    CALL(fcntl, fd, F_SETPIPE_SZ, 4096);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    int fd = CALL(open, "large", O_RDONLY);
    reading(fd);
    writing();
    moving(fd);
    duplicating(fd);
    commands(fd);
    CALL(sync);
    return 0;
}
