//! The calls from 200 to 299: futexes, timers, events, the calls relative to a folder.
//!
//! Apart so that no file of the table is too long to read.

use super::{EINTR, ENOSYS, EPERM, PLAIN, call, on, out};
use crate::Bytes::{
    Address, Array, Buffers, Counted, Descriptors, Fixed, Flagged, Messages, Nodes, Result as Returned, Timeout,
};
use crate::Call;
use crate::Effect::{Exit, Futex, Memory, Signals, ThreadState, Wait};
use crate::Request::Keyctl;
use crate::Treatment::{ByRequest, Emulate, Execute, Refuse};
use crate::When::{Always, Error, Positive, SuccessOr};

#[rustfmt::skip]
pub(super) static CALLS: [Call; 100] = [
    /* 200 */
    call("tkill", Execute(Signals)),
    call("time", Emulate(&[out(0, Fixed(8))])),
    call("futex", Execute(Futex)),
    call("sched_setaffinity", PLAIN),
    call("sched_getaffinity", Emulate(&[out(2, Returned)])),
    call("set_thread_area", ENOSYS),
    // The kernel writes into the buffers of asynchronous requests at any time.
    call("io_setup", ENOSYS),
    call("io_destroy", ENOSYS),
    call("io_getevents", ENOSYS),
    call("io_submit", ENOSYS),
    /* 210 */
    call("io_cancel", ENOSYS),
    call("get_thread_area", ENOSYS),
    call("lookup_dcookie", ENOSYS),
    call("epoll_create", PLAIN),
    call("epoll_ctl_old", ENOSYS),
    call("epoll_wait_old", ENOSYS),
    call("remap_file_pages", Execute(Memory)),
    call("getdents64", Emulate(&[out(1, Returned)])),
    call("set_tid_address", Execute(ThreadState)),
    // Only the kernel itself goes on with a call this way; a program that asks finds nothing to go on with.
    call("restart_syscall", Refuse(EINTR)),
    /* 220 */
    call("semtimedop", PLAIN),
    call("fadvise64", PLAIN),
    call("timer_create", Execute(Signals)),
    call("timer_settime", Execute(Signals)),
    call("timer_gettime", Emulate(&[out(1, Fixed(32))])),
    call("timer_getoverrun", PLAIN),
    call("timer_delete", Execute(Signals)),
    call("clock_settime", PLAIN),
    call("clock_gettime", Emulate(&[out(1, Fixed(16))])),
    call("clock_getres", Emulate(&[out(1, Fixed(16))])),
    /* 230 */
    // TIMER_ABSTIME: nothing remains to be told.
    call("clock_nanosleep", Emulate(&[
        on(3, Flagged { bytes: 16, argument: 1, mask: 1, set: false }, Error(EINTR)),
    ])),
    call("exit_group", Execute(Exit)),
    call("epoll_wait", Emulate(&[out(1, Counted { each: 12, most: 2 })])),
    call("epoll_ctl", PLAIN),
    call("tgkill", Execute(Signals)),
    call("utimes", PLAIN),
    call("vserver", ENOSYS),
    // Where a page lies does not change what it holds.
    call("mbind", PLAIN),
    call("set_mempolicy", PLAIN),
    call("get_mempolicy", Emulate(&[out(0, Fixed(4)), out(1, Nodes { most: 2 })])),
    /* 240 */
    call("mq_open", PLAIN),
    call("mq_unlink", PLAIN),
    call("mq_timedsend", PLAIN),
    call("mq_timedreceive", Emulate(&[out(1, Returned), out(3, Fixed(4))])),
    call("mq_notify", PLAIN),
    call("mq_getsetattr", Emulate(&[out(2, Fixed(64))])),
    call("kexec_load", EPERM),
    call("waitid", Execute(Wait)),
    call("add_key", PLAIN),
    call("request_key", PLAIN),
    /* 250 */
    call("keyctl", ByRequest(Keyctl)),
    call("ioprio_set", PLAIN),
    call("ioprio_get", PLAIN),
    call("inotify_init", PLAIN),
    call("inotify_add_watch", PLAIN),
    call("inotify_rm_watch", PLAIN),
    call("migrate_pages", PLAIN),
    call("openat", PLAIN),
    call("mkdirat", PLAIN),
    call("mknodat", PLAIN),
    /* 260 */
    call("fchownat", PLAIN),
    call("futimesat", PLAIN),
    call("newfstatat", Emulate(&[out(2, Fixed(144))])),
    call("unlinkat", PLAIN),
    call("renameat", PLAIN),
    call("linkat", PLAIN),
    call("symlinkat", PLAIN),
    call("readlinkat", Emulate(&[out(2, Returned)])),
    call("fchmodat", PLAIN),
    call("faccessat", PLAIN),
    /* 270 */
    call("pselect6", Emulate(&[
        out(1, Descriptors { count: 0 }), out(2, Descriptors { count: 0 }), out(3, Descriptors { count: 0 }),
        on(4, Timeout, Always),
    ])),
    call("ppoll", Emulate(&[on(0, Array { count: 1, each: 8 }, SuccessOr(EINTR)), on(2, Timeout, Always)])),
    call("unshare", PLAIN),
    call("set_robust_list", Execute(ThreadState)),
    call("get_robust_list", Execute(ThreadState)),
    call("splice", Emulate(&[out(1, Fixed(8)), out(3, Fixed(8))])),
    call("tee", PLAIN),
    call("sync_file_range", PLAIN),
    // Which way it copies is a matter of the descriptor: a pipe that is read fills the buffers.
    call("vmsplice", ENOSYS),
    call("move_pages", Emulate(&[out(4, Array { count: 1, each: 4 })])),
    /* 280 */
    call("utimensat", PLAIN),
    call("epoll_pwait", Emulate(&[out(1, Counted { each: 12, most: 2 })])),
    call("signalfd", PLAIN),
    call("timerfd_create", PLAIN),
    call("eventfd", PLAIN),
    call("fallocate", PLAIN),
    call("timerfd_settime", Emulate(&[out(3, Fixed(32))])),
    call("timerfd_gettime", Emulate(&[out(1, Fixed(32))])),
    call("accept4", Emulate(&[out(1, Address { length: 2 })])),
    call("signalfd4", PLAIN),
    /* 290 */
    call("eventfd2", PLAIN),
    call("epoll_create1", PLAIN),
    call("dup3", PLAIN),
    call("pipe2", Emulate(&[out(0, Fixed(8))])),
    call("inotify_init1", PLAIN),
    call("preadv", Emulate(&[out(1, Buffers { count: 2 })])),
    call("pwritev", PLAIN),
    call("rt_tgsigqueueinfo", Execute(Signals)),
    // Samples are written into mapped memory at any time.
    call("perf_event_open", EPERM),
    call("recvmmsg", Emulate(&[out(1, Messages { count: 2 }), on(4, Fixed(16), Positive)])),
];
