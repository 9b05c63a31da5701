//! The calls from 100 to 199: identities, scheduling, administration, attributes of files.
//!
//! Apart so that no file of the table is too long to read.

use super::{EINVAL, ENOSYS, EPERM, PLAIN, call, on, out};
use crate::Bytes::{Capabilities, Counted, Fitting, Fixed};
use crate::Call;
use crate::Effect::Signals;
use crate::Request::{ArchPrctl, Prctl, Quotactl, Setrlimit, Sysfs};
use crate::Treatment::{ByRequest, Emulate, Execute};
use crate::When::{Error, SuccessOr};

#[rustfmt::skip]
pub(super) static CALLS: [Call; 100] = [
    /* 100 */
    call("times", Emulate(&[out(0, Fixed(32))])),
    call("ptrace", EPERM),
    call("getuid", PLAIN),
    call("syslog", Emulate(&[out(1, Fitting { length: 2 })])),
    call("getgid", PLAIN),
    call("setuid", PLAIN),
    call("setgid", PLAIN),
    call("geteuid", PLAIN),
    call("getegid", PLAIN),
    call("setpgid", PLAIN),
    /* 110 */
    call("getppid", PLAIN),
    call("getpgrp", PLAIN),
    call("setsid", PLAIN),
    call("setreuid", PLAIN),
    call("setregid", PLAIN),
    call("getgroups", Emulate(&[out(1, Counted { each: 4, most: 0 })])),
    call("setgroups", PLAIN),
    call("setresuid", PLAIN),
    call("getresuid", Emulate(&[out(0, Fixed(4)), out(1, Fixed(4)), out(2, Fixed(4))])),
    call("setresgid", PLAIN),
    /* 120 */
    call("getresgid", Emulate(&[out(0, Fixed(4)), out(1, Fixed(4)), out(2, Fixed(4))])),
    call("getpgid", PLAIN),
    call("setfsuid", PLAIN),
    call("setfsgid", PLAIN),
    call("getsid", PLAIN),
    // A header of a version that the kernel does not know is told the one that it does.
    call("capget", Emulate(&[on(0, Fixed(4), SuccessOr(EINVAL)), out(1, Capabilities { header: 0 })])),
    call("capset", Emulate(&[on(0, Fixed(4), Error(EINVAL))])),
    call("rt_sigpending", Execute(Signals)),
    call("rt_sigtimedwait", Execute(Signals)),
    call("rt_sigqueueinfo", Execute(Signals)),
    /* 130 */
    call("rt_sigsuspend", Execute(Signals)),
    call("sigaltstack", Execute(Signals)),
    call("utime", PLAIN),
    call("mknod", PLAIN),
    call("uselib", ENOSYS),
    call("personality", PLAIN),
    call("ustat", Emulate(&[out(1, Fixed(32))])),
    call("statfs", Emulate(&[out(1, Fixed(120))])),
    call("fstatfs", Emulate(&[out(1, Fixed(120))])),
    call("sysfs", ByRequest(Sysfs)),
    /* 140 */
    call("getpriority", PLAIN),
    call("setpriority", PLAIN),
    call("sched_setparam", PLAIN),
    call("sched_getparam", Emulate(&[out(1, Fixed(4))])),
    call("sched_setscheduler", PLAIN),
    call("sched_getscheduler", PLAIN),
    call("sched_get_priority_max", PLAIN),
    call("sched_get_priority_min", PLAIN),
    call("sched_rr_get_interval", Emulate(&[out(1, Fixed(16))])),
    // Locked pages hold what they held.
    call("mlock", PLAIN),
    /* 150 */
    call("munlock", PLAIN),
    call("mlockall", PLAIN),
    call("munlockall", PLAIN),
    call("vhangup", PLAIN),
    call("modify_ldt", ENOSYS),
    call("pivot_root", PLAIN),
    call("_sysctl", ENOSYS),
    call("prctl", ByRequest(Prctl)),
    call("arch_prctl", ByRequest(ArchPrctl)),
    call("adjtimex", Emulate(&[out(0, Fixed(208))])),
    /* 160 */
    call("setrlimit", ByRequest(Setrlimit)),
    call("chroot", PLAIN),
    call("sync", PLAIN),
    call("acct", PLAIN),
    call("settimeofday", PLAIN),
    call("mount", PLAIN),
    call("umount2", PLAIN),
    call("swapon", PLAIN),
    call("swapoff", PLAIN),
    call("reboot", PLAIN),
    /* 170 */
    call("sethostname", PLAIN),
    call("setdomainname", PLAIN),
    call("iopl", EPERM),
    call("ioperm", EPERM),
    call("create_module", ENOSYS),
    call("init_module", EPERM),
    call("delete_module", EPERM),
    call("get_kernel_syms", ENOSYS),
    call("query_module", ENOSYS),
    call("quotactl", ByRequest(Quotactl)),
    /* 180 */
    call("nfsservctl", ENOSYS),
    call("getpmsg", ENOSYS),
    call("putpmsg", ENOSYS),
    call("afs_syscall", ENOSYS),
    call("tuxcall", ENOSYS),
    call("security", ENOSYS),
    call("gettid", PLAIN),
    call("readahead", PLAIN),
    call("setxattr", PLAIN),
    call("lsetxattr", PLAIN),
    /* 190 */
    call("fsetxattr", PLAIN),
    // With no room the result only says how much is needed.
    call("getxattr", Emulate(&[out(2, Fitting { length: 3 })])),
    call("lgetxattr", Emulate(&[out(2, Fitting { length: 3 })])),
    call("fgetxattr", Emulate(&[out(2, Fitting { length: 3 })])),
    call("listxattr", Emulate(&[out(1, Fitting { length: 2 })])),
    call("llistxattr", Emulate(&[out(1, Fitting { length: 2 })])),
    call("flistxattr", Emulate(&[out(1, Fitting { length: 2 })])),
    call("removexattr", PLAIN),
    call("lremovexattr", PLAIN),
    call("fremovexattr", PLAIN),
];
