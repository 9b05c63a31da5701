// Who the process is, what it may, and what it uses.

#include "calls.h"
#include <linux/capability.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

static void ids(void)
{
    unsigned *one = room(4), *two = room(4), *three = room(4), *groups = room(40);
    CALL(getpid);
    CALL(getppid);
    CALL(gettid);
    CALL(getuid);
    CALL(getgid);
    CALL(geteuid);
    CALL(getegid);
    CALL(getpgrp);
    CALL(getpgid, 0);
    CALL(getsid, 0);
    CALL(setsid);
    CALL(setpgid, 0, 0);
    CALL(getresuid, one, two, three);
    wrote("real", one, 4);
    wrote("effective", two, 4);
    wrote("saved", three, 4);
    CALL(getresgid, one, two, three);
    wrote("real", one, 4);
    wrote("effective", two, 4);
    wrote("saved", three, 4);
    CALL(getgroups, 10, groups);
    wrote("groups", groups, 40);
    CALL(getgroups, 0, groups);
    wrote("groups", groups, 40);
    CALL(setgroups, 1 << 20, groups);
    // Nothing is given away: what is asked for is what there is.
    CALL(setuid, geteuid());
    CALL(setgid, getegid());
    CALL(setreuid, -1, -1);
    CALL(setregid, -1, -1);
    CALL(setresuid, -1, -1, -1);
    CALL(setresgid, -1, -1, -1);
    CALL(setfsuid, -1);
    CALL(setfsgid, -1);
}

static void rights(void)
{
    struct __user_cap_header_struct *header = room(sizeof *header);
    struct __user_cap_data_struct *sets = room(2 * sizeof *sets);
    static const unsigned versions[] = {_LINUX_CAPABILITY_VERSION_1, _LINUX_CAPABILITY_VERSION_2,
                                        _LINUX_CAPABILITY_VERSION_3, 77};
    for (int i = 0; i < 4; i++) {
        *header = (struct __user_cap_header_struct){versions[i], 0};
        CALL(capget, header, sets);
        wrote("header", header, sizeof *header);
        wrote("sets", sets, 2 * sizeof *sets);
    }
    *header = (struct __user_cap_header_struct){77, 0};
    CALL(capset, header, sets);
    wrote("header", header, sizeof *header);
    CALL(personality, 0xffffffff);
    CALL(kcmp, getpid(), getpid(), 2, 0, 1);
    unsigned char *told = room(256);
    unsigned *length = word_of(256);
    CALL(lsm_list_modules, told, length, 0);
    bytes("length", length, 4);
    wrote("modules", told, 256);
    *length = 1;
    CALL(lsm_list_modules, told, length, 0);
    bytes("length", length, 4);
    wrote("modules", told, 256);
    *length = 256;
    CALL(lsm_get_self_attr, 100, told, length, 0);
    bytes("length", length, 4);
    wrote("attribute", told, 256);
    CALL(lsm_set_self_attr, 77, told, 8, 0);
    uint64_t request[4] = {32, 0, 0, 0}, *found = room(8 * 4);
    CALL(listns, request, found, 4, 0);
    wrote("namespaces", found, 8 * 4);
    CALL(unshare, 0);
    CALL(setns, -1, 0);
}

static void limits(void)
{
    struct rlimit *limit = room(sizeof *limit), files;
    CALL(getrlimit, RLIMIT_NOFILE, limit);
    bytes("files", limit, sizeof *limit);
    files = *limit;
    CALL(setrlimit, RLIMIT_NOFILE, &files);
    CALL(prlimit64, 0, RLIMIT_CORE, NULL, limit);
    wrote("core", limit, sizeof *limit);
    CALL(prlimit64, 0, RLIMIT_STACK, NULL, limit);
    bytes("stack", limit, sizeof *limit);
    files = *limit;
    CALL(prlimit64, 0, RLIMIT_STACK, &files, limit);
    wrote("stack", limit, sizeof *limit);
    CALL(prlimit64, 0, 99, NULL, limit);
    wrote("none", limit, sizeof *limit);
    CALL(setrlimit, RLIMIT_STACK, &files);
    struct rusage *used = room(sizeof *used);
    CALL(getrusage, RUSAGE_SELF, used);
    wrote("used", used, sizeof *used);
    CALL(getpriority, PRIO_PROCESS, 0);
    CALL(setpriority, PRIO_PROCESS, 0, 1);
    CALL(getpriority, PRIO_PROCESS, 0);
    CALL(ioprio_get, 1, 0);
    CALL(ioprio_set, 1, 0, 2 << 13 | 5);
    CALL(ioprio_get, 1, 0);
}

static void scheduling(void)
{
    unsigned char *mask = room(128);
    int *priority = copy_of(&(int){0}, 4);
    struct timespec *slice = room(sizeof *slice);
    CALL(sched_getaffinity, 0, 128, mask);
    bytes("mask", mask, 128);
    CALL(sched_setaffinity, 0, 128, mask);
    CALL(sched_getaffinity, 0, 3, mask);
    CALL(sched_getscheduler, 0);
    CALL(sched_setscheduler, 0, SCHED_BATCH, priority);
    CALL(sched_getparam, 0, priority);
    bytes("priority", priority, 4);
    CALL(sched_setparam, 0, priority);
    CALL(sched_get_priority_max, SCHED_FIFO);
    CALL(sched_get_priority_min, SCHED_FIFO);
    CALL(sched_rr_get_interval, 0, slice);
    wrote("slice", slice, sizeof *slice);
    unsigned *attributes = room(64);
    CALL(sched_getattr, 0, attributes, 64, 0);
    bytes("attributes", attributes, 64);
    CALL(sched_setattr, 0, attributes, 0);
    attributes[0] = 4000;
    CALL(sched_setattr, 0, attributes, 0);
    wrote("attributes", attributes, 64);
    CALL(sched_getattr, 0, attributes, 48, 0);
    wrote("attributes", attributes, 64);
    unsigned *cpu = room(4), *node = room(4);
    CALL(getcpu, cpu, node, NULL);
    wrote("cpu", cpu, 4);
    wrote("node", node, 4);
    CALL(sched_yield);
}

static void machine(void)
{
    struct utsname *names = room(sizeof *names);
    struct sysinfo *info = room(sizeof *info);
    unsigned char *dice = room(700);
    CALL(uname, names);
    wrote("uname", names, sizeof *names);
    CALL(sysinfo, info);
    wrote("sysinfo", info, sizeof *info);
    CALL(getrandom, dice, 70, 0);
    wrote("dice", dice, 700);
    CALL(getrandom, dice, 700, 1);
    wrote("dice", dice, 700);
    CALL(syslog, 10, dice, 0);
    CALL(syslog, 3, dice, 700);
    wrote("syslog", dice, 700);
    CALL(sethostname, "x", -1);
    CALL(setdomainname, "x", -1);
    CALL(sysfs, 3, 0, 0);
    CALL(sysfs, 1, "ext4", 0);
    CALL(sysfs, 2, 0, dice);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    ids();
    rights();
    limits();
    scheduling();
    machine();
    return 0;
}
