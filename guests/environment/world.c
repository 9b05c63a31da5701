// Prints what it finds outside: clocks, ids, random numbers, files, folders, addresses. Two plain runs differ; a
// replay prints the same with the folder gone.
//
// usage: world FOLDER        FOLDER holds `small`, `large` and `doomed`

#include "../transcript.h"
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/utsname.h>

static char path[4096];

static const char *in(const char *folder, const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static uint64_t hash_of(const unsigned char *bytes, size_t count)
{
    uint64_t hash = 7;
    for (size_t i = 0; i < count; i++)
        hash = fold(hash, bytes[i]);
    return hash;
}

static void clocks(void)
{
    struct timespec now, before, after, nap = {0, 3000000};
    struct timeval day;
    must_be(clock_gettime(CLOCK_REALTIME, &now) == 0);
    must_be(gettimeofday(&day, NULL) == 0);
    printf("clock %lld.%09ld %lld.%06ld %lld\n", (long long)now.tv_sec, now.tv_nsec, (long long)day.tv_sec,
           (long)day.tv_usec, (long long)time(NULL));
    must_be(clock_gettime(CLOCK_MONOTONIC, &before) == 0);
    must_be(nanosleep(&nap, NULL) == 0);
    must_be(clock_gettime(CLOCK_MONOTONIC, &after) == 0);
    printf("slept %ld\n", (after.tv_sec - before.tv_sec) * 1000000000L + after.tv_nsec - before.tv_nsec);
}

static void identities(void)
{
    struct utsname names;
    struct sysinfo info;
    struct rusage usage;
    unsigned char dice[24];
    must_be(uname(&names) == 0);
    must_be(sysinfo(&info) == 0);
    must_be(getrusage(RUSAGE_SELF, &usage) == 0);
    if (getrandom(dice, sizeof dice, 0) != sizeof dice)
        fail(__FILE__, __LINE__, "getrandom", errno);
    printf("ids %d %d %ld %d %s %s\n", getpid(), getppid(), syscall(SYS_gettid), getuid(), names.nodename, names.release);
    printf("load %lu %lu used %ld.%06ld\n", info.loads[0], info.freeram, (long)usage.ru_utime.tv_sec,
           (long)usage.ru_utime.tv_usec);
    printf("dice %016llx\n", (unsigned long long)hash_of(dice, sizeof dice));
}

static void files(const char *folder)
{
    static unsigned char large[1 << 20];
    struct stat about;
    char first[8] = "", second[64] = "";
    struct iovec parts[2] = {{first, 7}, {second, 63}};
    int fd = open(in(folder, "small"), O_RDONLY);
    must_be(fd >= 0);
    must_be(fstat(fd, &about) == 0);
    long got = readv(fd, parts, 2);
    printf("small %ld %s|%s size %lld inode %llu changed %lld.%09ld\n", got, first, second, (long long)about.st_size,
           (unsigned long long)about.st_ino, (long long)about.st_mtim.tv_sec, about.st_mtim.tv_nsec);
    unsigned char *mapped = mmap(NULL, about.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    printf("mapped at %p %016llx\n", (void *)mapped, (unsigned long long)hash_of(mapped, about.st_size));
    mapped[0] = 'x';
    must_be(munmap(mapped, about.st_size) == 0);
    must_be(close(fd) == 0);
    fd = open(in(folder, "large"), O_RDONLY);
    got = read(fd, large, sizeof large);
    printf("large %ld %016llx\n", got, (unsigned long long)hash_of(large, got));
    must_be(close(fd) == 0);
    FILE *stream = fopen(in(folder, "small"), "r");
    char line[100];
    while (stream && fgets(line, sizeof line, stream))
        printf("line %s", line);
    if (stream)
        fclose(stream);
    printf("missing %d\n", open(in(folder, "nothing"), O_RDONLY) < 0 ? errno : 0);
}

static void folders(const char *folder)
{
    char where[4096];
    DIR *list = opendir(folder);
    struct dirent *entry;
    uint64_t sum = 0;
    while (list && (entry = readdir(list)))
        sum += fold(entry->d_ino, hash_of((unsigned char *)entry->d_name, strlen(entry->d_name)));
    if (list)
        closedir(list);
    long length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    printf("folder %016llx in %s runs %s\n", (unsigned long long)sum, getcwd(where, sizeof where) ? where : "?", path);
    // A replay touches nothing: the file is gone already, and no other is made.
    printf("unlink %d\n", unlink(in(folder, "doomed")));
    int fd = open(in(folder, "made"), O_CREAT | O_WRONLY | O_EXCL, 0600);
    printf("made %d wrote %ld\n", fd < 0 ? errno : 0, (long)write(fd, "made\n", 5));
    close(fd);
}

static void channels(void)
{
    int ends[2], pair[2];
    char text[16] = "";
    must_be(pipe(ends) == 0);
    must_be(write(ends[1], "through", 7) == 7);
    struct pollfd waiting = {ends[0], POLLIN, 0};
    int ready = poll(&waiting, 1, -1);
    long got = read(ends[0], text, sizeof text);
    printf("pipe %d %d ready %d %x %ld %s\n", ends[0], ends[1], ready, waiting.revents, got, text);
    must_be(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    must_be(send(pair[0], "across", 6, 0) == 6);
    struct iovec part = {text, sizeof text};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    got = recvmsg(pair[1], &message, 0);
    printf("socket %ld %.6s flags %x\n", got, text, message.msg_flags);
    // Output follows the open file, not the number.
    int copy = dup(1);
    fflush(stdout);
    dprintf(copy, "by descriptor %d\n", copy);
    dprintf(2, "to the other output\n");
    close(copy);
}

static void addresses(void)
{
    int local;
    void *small = malloc(100), *large = malloc(1 << 20);
    void *mapped = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mapped = mremap(mapped, 1 << 16, 1 << 24, MREMAP_MAYMOVE);
    printf("at %p %p %p %p\n", (void *)&local, small, large, mapped);
    free(large);
    free(small);
}

int main(int count, char **arguments)
{
    if (count != 2)
        return 2;
    clocks();
    identities();
    files(arguments[1]);
    folders(arguments[1]);
    channels();
    addresses();
    return 7;
}
