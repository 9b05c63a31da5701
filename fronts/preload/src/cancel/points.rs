//! The cancellation points that are no synchronisation of their own: each only
//! counts itself, and as threads may wake each other through the kernel there,
//! hands on clocks. Nothing lives here but the list and what sets a few of them apart.

use super::{enter, interruption, leave, note_interruption, strike, unwound, wait_for_signal};
use crate::real::Real;
use relive_rt::{Mode, mode, outside};
use relive_sys::trampoline::Frame;
use relive_sys::{syscall, trampoline};

/// Slots of [`Frame::scratch`]: whether the call returns what is left of a sleep, whether it may have taken a child's
/// end.
const SLEEPS: usize = 0;
const REAPS: usize = 1;

/// What there is to know of a point besides its name.
#[derive(Clone, Copy, Debug)]
struct Nature {
    /// It returns what is left of a sleep.
    sleeps: bool,
    /// It waits for nothing but a signal.
    waits: bool,
    /// It takes the end of a child.
    reaps: bool,
    /// The argument that holds the signal mask for the time of the call.
    mask: Option<usize>,
}

const PLAIN: Nature = Nature { sleeps: false, waits: false, reaps: false, mask: None };
const SLEEP: Nature = Nature { sleeps: true, ..PLAIN };
const WAIT: Nature = Nature { waits: true, ..PLAIN };
const SUSPEND: Nature = Nature { mask: Some(0), ..WAIT };
const REAP: Nature = Nature { reaps: true, ..PLAIN };

const fn masked(argument: usize) -> Nature {
    Nature { mask: Some(argument), ..PLAIN }
}

unsafe fn before(frame: *mut Frame, real: &Real, nature: Nature) -> usize {
    outside::may_wake();
    // SAFETY: the trampoline's frame.
    unsafe {
        (*frame).scratch[SLEEPS] = usize::from(nature.sleeps);
        (*frame).scratch[REAPS] = usize::from(nature.reaps);
        let own = replayed_mask(&(*frame).args, nature).map(syscall::set_signal_mask);
        let cancelled = enter(frame, unwound);
        if nature.waits && !cancelled {
            wait_for_signal();
        }
        if let Some(own) = own {
            syscall::set_signal_mask(own);
        }
        if cancelled {
            return strike((*frame).place);
        }
        if let Some(result) = interruption(frame) {
            (*frame).result = result;
            return 0;
        }
        real.address()
    }
}

/// The mask that the kernel sets for the time of this call, in a replay: what struck in the call in the recording
/// was let through by it and may be blocked by the thread's own.
unsafe fn replayed_mask(args: &[usize; 6], nature: Nature) -> Option<u64> {
    let mask = args[nature.mask?] as *const u64;
    if mode() != Mode::Replay {
        return None;
    }
    // SAFETY: null or a signal set of the program, whose first word holds all signals.
    unsafe { mask.as_ref().copied() }
}

unsafe extern "C" fn after(frame: *mut Frame) -> usize {
    // SAFETY: the trampoline's frame.
    unsafe {
        if (*frame).scratch[REAPS] != 0 {
            outside::may_have_reaped();
        } else {
            outside::may_have_waited();
        }
        leave(frame);
        note_interruption(frame, (*frame).scratch[SLEEPS] != 0);
        (*frame).result
    }
}

macro_rules! points {
    ($($name:ident = $symbol:literal $(: $nature:expr)?),* $(,)?) => {
        $(
            mod $name {
                use super::*;

                pub(super) static REAL: Real = Real::new($symbol, None);

                pub(super) unsafe extern "C" fn before(frame: *mut Frame) -> usize {
                    // SAFETY: forwarded.
                    unsafe { super::before(frame, &REAL, points!(@nature $($nature)?)) }
                }
            }
            trampoline!($name, $name::before, after);
        )*

        /// Looks all of them up before the first is called: a look-up takes the loader's lock, and such a
        /// call may come from a signal handler or from a fork child that must not wait for it.
        unsafe extern "C" fn look_up() {
            // A point that this C library lacks is never called.
            $(let _ = $name::REAL.look_up_if_present();)*
        }
    };
    (@nature) => { PLAIN };
    (@nature $nature:expr) => { $nature };
}

#[used]
#[unsafe(link_section = ".init_array")]
static LOOK_UP: unsafe extern "C" fn() = look_up;

#[rustfmt::skip]
points! {
    read = c"read", readv = c"readv", pread = c"pread", pread64 = c"pread64", preadv = c"preadv",
    preadv64 = c"preadv64", __read_chk = c"__read_chk", __pread_chk = c"__pread_chk",
    __pread64_chk = c"__pread64_chk", __read = c"__read", __pread64 = c"__pread64",
    write = c"write", writev = c"writev", pwrite = c"pwrite", pwrite64 = c"pwrite64", pwritev = c"pwritev",
    pwritev64 = c"pwritev64", __write = c"__write", __pwrite64 = c"__pwrite64",
    open = c"open", open64 = c"open64", openat = c"openat", openat64 = c"openat64", creat = c"creat",
    creat64 = c"creat64", __open_2 = c"__open_2", __open64_2 = c"__open64_2", __openat_2 = c"__openat_2",
    __openat64_2 = c"__openat64_2", __open = c"__open", __open64 = c"__open64",
    close = c"close", __close = c"__close", fsync = c"fsync", fdatasync = c"fdatasync", msync = c"msync",
    tcdrain = c"tcdrain", fallocate = c"fallocate", fallocate64 = c"fallocate64",
    sync_file_range = c"sync_file_range", splice = c"splice", tee = c"tee", vmsplice = c"vmsplice",
    copy_file_range = c"copy_file_range",
    sleep = c"sleep": SLEEP, usleep = c"usleep", nanosleep = c"nanosleep", __nanosleep = c"__nanosleep",
    clock_nanosleep = c"clock_nanosleep": SLEEP, thrd_sleep = c"thrd_sleep": SLEEP,
    poll = c"poll", __poll = c"__poll", __poll_chk = c"__poll_chk", ppoll = c"ppoll": masked(3),
    __ppoll_chk = c"__ppoll_chk": masked(3),
    select = c"select", __select = c"__select", pselect = c"pselect": masked(5), epoll_wait = c"epoll_wait",
    epoll_pwait = c"epoll_pwait": masked(4), epoll_pwait2 = c"epoll_pwait2": masked(4),
    accept = c"accept", accept4 = c"accept4", connect = c"connect", __connect = c"__connect",
    recv = c"recv", recvfrom = c"recvfrom", recvmsg = c"recvmsg", recvmmsg = c"recvmmsg",
    __recv_chk = c"__recv_chk", __recvfrom_chk = c"__recvfrom_chk",
    send = c"send", __send = c"__send", sendto = c"sendto", sendmsg = c"sendmsg", sendmmsg = c"sendmmsg",
    wait = c"wait": REAP, waitpid = c"waitpid": REAP, __waitpid = c"__waitpid": REAP, wait3 = c"wait3": REAP,
    wait4 = c"wait4": REAP, waitid = c"waitid": REAP,
    pause = c"pause": WAIT, sigsuspend = c"sigsuspend": SUSPEND, __sigsuspend = c"__sigsuspend": SUSPEND,
    sigwait = c"sigwait", sigwaitinfo = c"sigwaitinfo", sigtimedwait = c"sigtimedwait",
    msgsnd = c"msgsnd", msgrcv = c"msgrcv", mq_send = c"mq_send", mq_timedsend = c"mq_timedsend",
    mq_receive = c"mq_receive", mq_timedreceive = c"mq_timedreceive",
}
