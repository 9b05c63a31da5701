//! The calls from 424 on: the numbers that all architectures share.
//!
//! Apart so that no file of the table is too long to read.

use super::{E2BIG, ENOSYS, PLAIN, call, on, out};
use crate::Bytes::{Attribute, Counted, Fitting, Fixed, Room, Sized, Value};
use crate::Call;
use crate::Effect::{Futex, Memory, Signals};
use crate::Request::QuotactlFd;
use crate::Treatment::{ByRequest, Emulate, Execute, Refuse};
use crate::When::{Error, SuccessOr};

/// The processor has no shadow stacks, the kernel no security module with the attribute.
const EOPNOTSUPP: u16 = 95;

#[rustfmt::skip]
pub(super) static CALLS: [Call; 48] = [
    /* 424 */
    call("pidfd_send_signal", Execute(Signals)),
    // The kernel writes into rings and buffers at any time.
    call("io_uring_setup", ENOSYS),
    call("io_uring_enter", ENOSYS),
    call("io_uring_register", ENOSYS),
    call("open_tree", PLAIN),
    call("move_mount", PLAIN),
    /* 430 */
    call("fsopen", PLAIN),
    call("fsconfig", PLAIN),
    call("fsmount", PLAIN),
    call("fspick", PLAIN),
    call("pidfd_open", PLAIN),
    // libc goes on with clone, whose arguments stand in registers.
    call("clone3", ENOSYS),
    call("close_range", PLAIN),
    call("openat2", PLAIN),
    call("pidfd_getfd", PLAIN),
    call("faccessat2", PLAIN),
    /* 440 */
    // It may empty pages of this very process.
    call("process_madvise", ENOSYS),
    call("epoll_pwait2", Emulate(&[out(1, Counted { each: 12, most: 2 })])),
    call("mount_setattr", PLAIN),
    call("quotactl_fd", ByRequest(QuotactlFd)),
    call("landlock_create_ruleset", PLAIN),
    call("landlock_add_rule", PLAIN),
    call("landlock_restrict_self", PLAIN),
    call("memfd_secret", PLAIN),
    call("process_mrelease", PLAIN),
    call("futex_waitv", Execute(Futex)),
    /* 450 */
    call("set_mempolicy_home_node", PLAIN),
    call("cachestat", Emulate(&[out(2, Fixed(40))])),
    call("fchmodat2", PLAIN),
    call("map_shadow_stack", Refuse(EOPNOTSUPP)),
    call("futex_wake", Execute(Futex)),
    call("futex_wait", Execute(Futex)),
    call("futex_requeue", Execute(Futex)),
    call("statmount", Emulate(&[out(1, Sized { most: 2 })])),
    call("listmount", Emulate(&[out(1, Counted { each: 8, most: 2 })])),
    // The length comes also with failures: what would have been enough, after some modules had their say, or none.
    call("lsm_get_self_attr", Emulate(&[
        on(2, Fixed(4), SuccessOr(E2BIG)), on(2, Fixed(4), Error(EOPNOTSUPP)),
        on(1, Value { length: 2 }, SuccessOr(E2BIG)),
    ])),
    /* 460 */
    call("lsm_set_self_attr", PLAIN),
    call("lsm_list_modules", Emulate(&[on(1, Fixed(4), SuccessOr(E2BIG)), out(0, Value { length: 1 })])),
    call("mseal", Execute(Memory)),
    call("setxattrat", PLAIN),
    call("getxattrat", Emulate(&[out(4, Attribute)])),
    call("listxattrat", Emulate(&[out(3, Fitting { length: 4 })])),
    call("removexattrat", PLAIN),
    call("open_tree_attr", PLAIN),
    call("file_getattr", Emulate(&[out(2, Room { length: 3 })])),
    call("file_setattr", PLAIN),
    /* 470 */
    call("listns", Emulate(&[out(1, Counted { each: 8, most: 2 })])),
    // A way out of rseq, which is refused.
    call("rseq_slice_yield", ENOSYS),
];
