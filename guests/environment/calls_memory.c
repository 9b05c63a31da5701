// The address space: where things are, what they hold, and what the kernel says about it.

#include "calls.h"

enum { PAGE = 4096 };

static void mappings(void)
{
    // More than is used: a part of it is moved onto another.
    char *at = (char *)CALL(mmap, NULL, 32 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(at, 'x', 8 * PAGE);
    CALL(mprotect, at, PAGE, PROT_READ);
    CALL(mprotect, at + 1, PAGE, PROT_READ);
    CALL(munmap, at + 2 * PAGE, PAGE);
    CALL(mremap, at, 2 * PAGE, PAGE, 0);
    char *moved = (char *)CALL(mremap, at + 3 * PAGE, 2 * PAGE, 64 * PAGE, MREMAP_MAYMOVE);
    bytes("moved", moved, 64 * PAGE);
    CALL(mremap, moved, 2 * PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at + 16 * PAGE);
    unsigned char *present = room(8);
    CALL(mincore, moved + 2 * PAGE, 8 * PAGE, present);
    wrote("present", present, 8);
    CALL(mincore, moved + 2 * PAGE, 3 * PAGE + 1, present);
    wrote("present", present, 8);
    CALL(madvise, moved + 2 * PAGE, PAGE, MADV_DONTNEED);
    CALL(madvise, moved + 2 * PAGE, PAGE, 999);
    bytes("emptied", moved + 2 * PAGE, PAGE);
    CALL(mlock, moved + 2 * PAGE, PAGE);
    CALL(mlock2, moved + 2 * PAGE, PAGE, 1);
    CALL(munlock, moved + 2 * PAGE, PAGE);
    CALL(mlockall, 2);
    CALL(munlockall);
    CALL(msync, moved + 2 * PAGE, PAGE, MS_SYNC);
    long end = CALL(brk, 0);
    CALL(brk, end + 3 * PAGE);
    CALL(brk, end);
    CALL(mmap, (char *)PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | 0x100000, 99, 0);
    CALL(mmap, NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void files(void)
{
    int fd = open("small", O_RDWR);
    char *shared = (char *)CALL(mmap, NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    char *own = (char *)CALL(mmap, NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    bytes("shared", shared, 19);
    bytes("own", own, PAGE);
    own[0] = 'X';
    CALL(munmap, shared, PAGE);
    int large = open("large", O_RDONLY);
    own = (char *)CALL(mmap, NULL, 3 * PAGE, PROT_READ, MAP_PRIVATE | MAP_POPULATE, large, PAGE);
    bytes("large", own, 3 * PAGE);
    CALL(mmap, NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, large, 0);
    CALL(mmap, NULL, PAGE, PROT_READ, MAP_PRIVATE, 99, 0);
    CALL(remap_file_pages, own, PAGE, 0, 0, 0);
    fd = CALL(memfd_create, "memory", 0);
    must_be(ftruncate(fd, PAGE) == 0);
    CALL(write, fd, "in memory", 9);
    own = (char *)CALL(mmap, NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
    bytes("memory", own, PAGE);
    CALL(memfd_create, "memory", 0x8000);
    CALL(memfd_secret, 0x8000);
}

static void others(void)
{
    char *text = room(30), *told = room(30);
    strcpy(text, "read from a process");
    struct iovec mine[2] = {{told, 4}, {told + 10, 9}}, theirs = {text, 30};
    CALL(process_vm_readv, getpid(), mine, 2, &theirs, 1, 0);
    wrote("told", told, 30);
    CALL(process_vm_writev, getpid(), mine, 2, &theirs, 1, 0);
    CALL(process_madvise, -1, mine, 1, MADV_COLD, 0);
    CALL(process_mrelease, -1, 0);
    void *pages[2] = {(void *)((uintptr_t)text & -PAGE), (void *)PAGE};
    int *where = room(2 * 4);
    CALL(move_pages, 0, 2, pages, NULL, where, 0);
    wrote("where", where, 2 * 4);
    uint64_t *nodes = room(8 * 16);
    unsigned *mode = room(4);
    CALL(get_mempolicy, mode, nodes, 1024, 0, 0);
    wrote("mode", mode, 4);
    wrote("nodes", nodes, 8 * 16);
    CALL(get_mempolicy, NULL, nodes, 1024, 0, 4 /* MPOL_F_MEMS_ALLOWED */);
    wrote("nodes", nodes, 8 * 16);
    CALL(set_mempolicy, 0, NULL, 0);
    CALL(mbind, pages[0], PAGE, 0, NULL, 0, 0);
    CALL(set_mempolicy_home_node, pages[0], PAGE, 99, 0);
    CALL(migrate_pages, 0, 0, NULL, NULL);
    CALL(membarrier, 0, 0, 0);
}

static void protection(void)
{
    long key = CALL(pkey_alloc, 0, 0);
    char *at = (char *)CALL(mmap, NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CALL(pkey_mprotect, at, PAGE, PROT_READ | PROT_WRITE, key);
    CALL(pkey_free, key);
    CALL(map_shadow_stack, 0, PAGE, 0);
    CALL(mseal, at, PAGE, 0);
    CALL(munmap, at, PAGE);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    mappings();
    files();
    others();
    protection();
    return 0;
}
