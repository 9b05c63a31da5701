//! The calls from 300 to 334, the last numbers that x86-64 has for itself.
//!
//! Apart so that no file of the table is too long to read.

use super::{E2BIG, EINVAL, ENOSYS, EOVERFLOW, EPERM, PLAIN, call, on, out};
use crate::Bytes::{Buffers, Counted, Fixed, Flagged, Handle, Result as Returned, Room};
use crate::Call;
use crate::Effect::{Exec, Memory, Schedule};
use crate::Request::Prlimit;
use crate::Treatment::{ByRequest, Emulate, Execute, Refuse};
use crate::When::{Error, SuccessOr};

#[rustfmt::skip]
pub(super) static CALLS: [Call; 35] = [
    /* 300 */
    call("fanotify_init", PLAIN),
    call("fanotify_mark", PLAIN),
    call("prlimit64", ByRequest(Prlimit)),
    // A handle that does not fit tells its length. AT_HANDLE_MNT_ID_UNIQUE: the number of the mount has 64 bits.
    call("name_to_handle_at", Emulate(&[
        on(2, Handle, SuccessOr(EOVERFLOW)),
        on(3, Flagged { bytes: 4, argument: 4, mask: 1, set: false }, SuccessOr(EOVERFLOW)),
        on(3, Flagged { bytes: 8, argument: 4, mask: 1, set: true }, SuccessOr(EOVERFLOW)),
    ])),
    call("open_by_handle_at", PLAIN),
    call("clock_adjtime", Emulate(&[out(1, Fixed(208))])),
    call("syncfs", PLAIN),
    // How much of each message was sent.
    call("sendmmsg", Emulate(&[out(1, Counted { each: 64, most: 2 })])),
    call("setns", PLAIN),
    call("getcpu", Emulate(&[out(0, Fixed(4)), out(1, Fixed(4))])),
    /* 310 */
    call("process_vm_readv", Emulate(&[out(1, Buffers { count: 2 })])),
    // The other process may be this one.
    call("process_vm_writev", EPERM),
    call("kcmp", PLAIN),
    call("finit_module", EPERM),
    // A structure that is too long is told the kernel's length.
    call("sched_setattr", Emulate(&[on(1, Fixed(4), Error(E2BIG))])),
    // Newer kernels clear what is left of the room.
    call("sched_getattr", Emulate(&[out(1, Room { length: 2 })])),
    call("renameat2", PLAIN),
    // A filter would be asked about the calls of the runtime.
    call("seccomp", Refuse(EINVAL)),
    call("getrandom", Emulate(&[out(0, Returned)])),
    call("memfd_create", PLAIN),
    /* 320 */
    call("kexec_file_load", EPERM),
    call("bpf", EPERM),
    call("execveat", Execute(Exec)),
    call("userfaultfd", ENOSYS),
    call("membarrier", Execute(Schedule)),
    call("mlock2", PLAIN),
    call("copy_file_range", Emulate(&[out(1, Fixed(8)), out(3, Fixed(8))])),
    call("preadv2", Emulate(&[out(1, Buffers { count: 2 })])),
    call("pwritev2", PLAIN),
    call("pkey_mprotect", Execute(Memory)),
    /* 330 */
    call("pkey_alloc", Execute(Memory)),
    call("pkey_free", Execute(Memory)),
    call("statx", Emulate(&[out(4, Fixed(256))])),
    call("io_pgetevents", ENOSYS),
    // The kernel would write the processor's number into it at any time.
    call("rseq", ENOSYS),
];
