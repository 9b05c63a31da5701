// Folders and what is known about files.

#include "calls.h"
#include <linux/stat.h>
#include <sys/vfs.h>
#include <utime.h>

static void about(int folder)
{
    void *text = room(256);
    CALL(stat, "small", text);
    wrote("stat", text, 256);
    CALL(lstat, "large", text);
    wrote("lstat", text, 256);
    CALL(fstat, folder, text);
    wrote("fstat", text, 256);
    CALL(newfstatat, folder, "small", text, AT_SYMLINK_NOFOLLOW);
    wrote("newfstatat", text, 256);
    CALL(newfstatat, folder, "", text, AT_EMPTY_PATH);
    wrote("newfstatat", text, 256);
    CALL(stat, "nothing", text);
    wrote("stat", text, 256);
    CALL(statx, folder, "small", AT_STATX_FORCE_SYNC, STATX_ALL, text);
    wrote("statx", text, 256);
    // Room for just that.
    text = room(144);
    CALL(stat, ".", text);
    wrote("stat", text, 144);
    text = room(120);
    CALL(statfs, ".", text);
    wrote("statfs", text, 120);
    CALL(fstatfs, folder, text);
    wrote("fstatfs", text, 120);
    struct stat here;
    must_be(stat(".", &here) == 0);
    text = room(32);
    CALL(ustat, here.st_dev, text);
    wrote("ustat", text, 32);
    CALL(access, "small", R_OK);
    CALL(access, "nothing", R_OK);
    CALL(faccessat, folder, "small", W_OK);
    CALL(faccessat2, folder, "large", X_OK, AT_EACCESS);
}

static void lists(int folder)
{
    char *text = room(400);
    while (CALL(getdents64, folder, text, 400) > 0)
        wrote("getdents64", text, 400);
    CALL(lseek, folder, 0, SEEK_SET);
    while (CALL(getdents, folder, text, 400) > 0)
        wrote("getdents", text, 400);
    CALL(getcwd, text, 400);
    wrote("getcwd", text, 400);
    CALL(getcwd, text, 2);
    wrote("getcwd", text, 400);
    CALL(chdir, "/");
    CALL(getcwd, text + 396, 4);
    wrote("getcwd", text, 400);
    CALL(fchdir, folder);
    CALL(chroot, "/");
    CALL(getcwd, text, 400);
    wrote("getcwd", text, 400);
    CALL(chdir, "nothing");
}

static void names(int folder)
{
    char *text = room(50);
    CALL(mkdir, "sub", 0700);
    CALL(mkdirat, folder, "sub/two", 0700);
    CALL(symlink, "small", "link");
    CALL(symlinkat, "a longer name that leads nowhere", folder, "sub/link");
    CALL(readlink, "link", text, 50);
    wrote("readlink", text, 50);
    CALL(readlinkat, folder, "sub/link", text, 5);
    wrote("readlinkat", text, 50);
    CALL(readlink, "small", text, 50);
    wrote("readlink", text, 50);
    CALL(readlink, "/proc/self/exe", text, 50);
    wrote("readlink", text, 50);
    CALL(link, "small", "sub/hard");
    CALL(linkat, folder, "link", folder, "sub/soft", 0);
    CALL(rename, "sub/hard", "sub/harder");
    CALL(renameat, folder, "sub/harder", folder, "sub/hardest");
    CALL(renameat2, folder, "sub/hardest", folder, "link", 2);
    CALL(readlink, "sub/hardest", text, 50);
    wrote("readlink", text, 50);
    CALL(mknod, "fifo", S_IFIFO | 0600, 0);
    CALL(mknodat, folder, "fifo", S_IFIFO | 0600, 0);
    CALL(unlink, "fifo");
    CALL(unlink, "doomed");
    CALL(unlinkat, folder, "sub/two", AT_REMOVEDIR);
    CALL(rmdir, "sub");
}

static void properties(int folder)
{
    struct timespec times[2] = {{1, 2}, {3, 4}};
    struct timeval old[2] = {{5, 6}, {7, 8}};
    struct utimbuf older = {9, 10};
    struct stat *found = room(sizeof *found);
    int fd = open("small", O_RDWR);
    CALL(umask, 022);
    CALL(chmod, "small", 0640);
    CALL(fchmod, fd, 0600);
    CALL(fchmodat, folder, "small", 0611);
    CALL(fchmodat2, folder, "small", 0622, AT_SYMLINK_NOFOLLOW);
    CALL(chown, "small", getuid(), -1);
    CALL(fchown, fd, -1, getgid());
    CALL(lchown, "small", -1, -1);
    CALL(fchownat, folder, "nothing", 0, 0, 0);
    CALL(utime, "small", &older);
    CALL(utimes, "small", old);
    CALL(futimesat, folder, "small", old);
    CALL(utimensat, folder, "small", times, 0);
    CALL(fstat, fd, found);
    wrote("changed", found, sizeof *found);
}

// A handle that fits, one that does not, and a file by its handle.
static void handles(int folder)
{
    unsigned char *handle = room(8 + 128);
    uint64_t *mount = room(8);
    *(unsigned *)handle = 128;
    CALL(name_to_handle_at, folder, "small", handle, mount, 0);
    bytes("handle", handle, 8 + 128);
    wrote("mount", mount, 8);
    CALL(open_by_handle_at, folder, handle, O_RDONLY);
    memset(handle, PATTERN, 8 + 128);
    *(unsigned *)handle = 1;
    CALL(name_to_handle_at, folder, "small", handle, mount, 0);
    wrote("handle", handle, 8 + 128);
    wrote("mount", mount, 8);
    *(unsigned *)handle = 128;
    CALL(name_to_handle_at, folder, "small", handle, mount, 1 /* AT_HANDLE_MNT_ID_UNIQUE */);
    wrote("handle", handle, 8 + 128);
    wrote("mount", mount, 8);
    CALL(name_to_handle_at, folder, "nothing", handle, mount, 0);
    wrote("handle", handle, 8 + 128);
}

// What mounts there are.
static void mounts(void)
{
    struct {
        uint32_t size, spare;
        uint64_t mount, param, namespace;
    } about = {24, 0, ~0ull, 0, 0};
    uint64_t *found = room(8 * 3);
    long listed = CALL(listmount, &about, found, 3, 0);
    bytes("listmount", found, 8 * 3);
    unsigned char *told = room(1024);
    about.mount = listed > 0 ? found[0] : 0;
    about.param = 0x1 | 0x2 | 0x20;
    CALL(statmount, &about, told, 1024, 0);
    wrote("statmount", told, 1024);
    CALL(statmount, &about, told + 1000, 24, 0);
    wrote("statmount", told, 1024);
    unsigned char *attributes = room(40);
    CALL(file_getattr, AT_FDCWD, "small", attributes, 24, 0);
    wrote("file_getattr", attributes, 40);
    CALL(file_getattr, AT_FDCWD, "small", attributes, 40, 0);
    wrote("file_getattr", attributes, 40);
    CALL(file_setattr, AT_FDCWD, "nothing", attributes, 24, 0);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    int folder = open(".", O_RDONLY | O_DIRECTORY);
    about(folder);
    lists(folder);
    names(folder);
    properties(folder);
    handles(folder);
    mounts();
    return 0;
}
