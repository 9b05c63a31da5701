// Calls that fail: those that a recording refuses, and those that would change the machine, asked for something that
// cannot be. Errors are recorded, too.

#include "calls.h"
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>

// Refused whoever asks, so that programs fall back to other calls.
static void refused(void)
{
    uint64_t context = 0;
    struct io_uring_params ring;
    memset(&ring, 0, sizeof ring);
    CALL(io_setup, 4, &context);
    CALL(io_destroy, context);
    CALL(io_getevents, context, 0, 1, NULL, NULL);
    CALL(io_submit, context, 0, NULL);
    CALL(io_cancel, context, NULL, NULL);
    CALL(io_pgetevents, context, 0, 1, NULL, NULL, NULL);
    CALL(io_uring_setup, 4, &ring);
    CALL(io_uring_enter, -1, 0, 0, 0, NULL, 0);
    CALL(io_uring_register, -1, 0, NULL, 0);
    CALL(bpf, BPF_MAP_CREATE, NULL, 0);
    struct perf_event_attr counter = {.type = PERF_TYPE_SOFTWARE, .size = sizeof counter};
    CALL(perf_event_open, &counter, 0, -1, -1, 0);
    CALL(userfaultfd, 0);
    CALL(iopl, 0);
    CALL(ioperm, 0, 1, 0);
    CALL(modify_ldt, 0, NULL, 0);
    CALL(set_thread_area, NULL);
    CALL(get_thread_area, NULL);
    CALL(init_module, NULL, 0, "");
    CALL(finit_module, -1, "", 0);
    CALL(delete_module, "no such module", 0);
    CALL(kexec_load, 0, 0, NULL, 0);
    CALL(kexec_file_load, -1, -1, 0, NULL, 0);
    CALL(uselib, "/nothing");
    CALL(restart_syscall);
    CALL(rseq_slice_yield);
}

// No kernel of today has them.
static void gone(void)
{
    CALL(create_module, "no such module", 0);
    CALL(get_kernel_syms, NULL);
    CALL(query_module, NULL, 0, NULL, 0, NULL);
    CALL(nfsservctl, 0, NULL, NULL);
    CALL(getpmsg);
    CALL(putpmsg);
    CALL(afs_syscall);
    CALL(tuxcall);
    CALL(security);
    CALL(epoll_ctl_old);
    CALL(epoll_wait_old);
    CALL(vserver);
    CALL(lookup_dcookie, 0, NULL, 0);
    CALL(_sysctl, NULL);
}

static void impossible(void)
{
    unsigned char *room_for = room(256);
    CALL(mount, "nothing", "/nothing/there", "ext4", 0, NULL);
    CALL(umount2, "/nothing/there", 0);
    CALL(pivot_root, "/nothing/there", "/nothing/there");
    CALL(swapon, "/nothing/there", 0);
    CALL(swapoff, "/nothing/there");
    CALL(acct, "/nothing/there");
    // Without its magic numbers.
    CALL(reboot, 0, 0, 0, NULL);
    CALL(quotactl, 0x800004 << 8, "/nothing/there", 0, room_for);
    CALL(quotactl_fd, -1, 0x800004 << 8, 0, room_for);
    CALL(fsopen, "no such file system", 0);
    CALL(fsconfig, -1, 0, NULL, NULL, 0);
    CALL(fsmount, -1, 0, 0);
    CALL(fspick, -1, "nothing", 0);
    CALL(open_tree, -1, "nothing", 0);
    CALL(open_tree_attr, -1, "nothing", 0, NULL, 0);
    CALL(move_mount, -1, "nothing", -1, "nothing", 0);
    CALL(mount_setattr, -1, "nothing", 0, NULL, 0);
    bytes("nothing written", room_for, 256);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    refused();
    gone();
    impossible();
    return 0;
}
