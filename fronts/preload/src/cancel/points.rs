//! The cancellation points that are no synchronisation of their own: each
//! counts itself, and as threads may wake each other through the kernel there,
//! hands on clocks, and with the environment recorded orders what they hand over.
//! Nothing lives here but the list and what sets a few of them apart.

use super::woken::{self, Woken};
use super::{enter, interruption, leave, note_interruption, strike, unwound, wait_for_signal};
use crate::real::{self, Real, look_up_early};
use core::ffi::c_int;
use relive_rt::environment::carried::{self, Carries};
use relive_rt::environment::without_ours;
use relive_rt::{Mode, mode, outside};
use relive_sys::trampoline::Frame;
use relive_sys::{detour, syscall, trampoline};

/// Slots of [`Frame::scratch`]: how the call may end, see below, and what it hands on.
const ENDS: usize = 0;
const CARRIES: usize = 1;
/// It returns what is left of a sleep; it may have taken a child's end; it was woken before it began.
const SLEEPS: usize = 1;
const REAPS: usize = 2;
const WOKEN: usize = 4;

/// What there is to know of a point besides its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nature {
    /// It returns what is left of a sleep.
    sleeps: bool,
    /// It waits for nothing but a signal.
    waits: bool,
    /// It takes the end of a child.
    reaps: bool,
    /// What it hands to other threads, or takes from them.
    carries: Carries,
    /// That is said by the flags in this argument.
    opens: Option<usize>,
    /// The argument that holds the signal mask for the time of the call.
    mask: Option<usize>,
    woken: Woken,
}

const PLAIN: Nature = Nature {
    sleeps: false,
    waits: false,
    reaps: false,
    carries: Carries::NOTHING,
    opens: None,
    mask: None,
    woken: Woken::Never,
};
pub(crate) const GIVE: Nature = Nature { carries: Carries::GIVES, ..PLAIN };
const TAKE: Nature = Nature { carries: Carries::TAKES, ..PLAIN };
const BOTH: Nature = Nature { carries: Carries::EXCHANGES, ..PLAIN };
const READY: Nature = Nature { carries: Carries::AWAITS, woken: Woken::Fails, ..PLAIN };
const MAKE: Nature = Nature { carries: Carries::CHANGES_AND_LOOKS, ..PLAIN };
const RECEIVE: Nature = Nature { carries: Carries::RECEIVES, ..PLAIN };
const HEAR: Nature = Nature { woken: Woken::Waits(None), ..TAKE };
const SLEEP: Nature = Nature { sleeps: true, ..PLAIN };
const NAP: Nature = Nature { woken: Woken::Left, ..SLEEP };
const DOZE: Nature = Nature { woken: Woken::FailsWithout(1), ..PLAIN };
const WAIT: Nature = Nature { waits: true, woken: Woken::Fails, ..PLAIN };
const SUSPEND: Nature = Nature { mask: Some(0), woken: Woken::Never, ..WAIT };
const REAP: Nature = Nature { reaps: true, carries: Carries::REAPS, ..PLAIN };

const fn opens(argument: usize) -> Nature {
    Nature { opens: Some(argument), ..PLAIN }
}

const fn hears(flags: usize) -> Nature {
    Nature { woken: Woken::Waits(Some(flags)), ..TAKE }
}

const fn masked(argument: usize) -> Nature {
    Nature { mask: Some(argument), ..READY }
}

/// What a point begins with: the function to call, or 0 if the result is there.
///
/// # Safety
/// `frame` must be a trampoline's frame; [`after`] follows unless it is unwound.
pub(crate) unsafe fn before(frame: *mut Frame, real: &Real, nature: &Nature) -> usize {
    outside::may_wake();
    // SAFETY: the trampoline's frame.
    unsafe {
        let carries = nature.opens.map_or(nature.carries, |flags| Carries::of_opening((*frame).args[flags]));
        // Before the call counts itself within the event number.
        carries.before((*frame).place);
        (*frame).scratch[CARRIES] = carries.as_word();
        (*frame).scratch[ENDS] = usize::from(nature.sleeps) | usize::from(nature.reaps) << 1;
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
        if woken::ends(frame, nature.woken) {
            (*frame).scratch[ENDS] |= WOKEN;
            return 0;
        }
        real.address()
    }
}

/// The mask that the kernel sets for the time of this call, in a replay: what struck in the call in the recording
/// was let through by it and may be blocked by the thread's own. Our own signals it can't block here either: the end of
/// the very handler that it lets run is a call that comes to us by one.
unsafe fn replayed_mask(args: &[usize; 6], nature: &Nature) -> Option<u64> {
    let mask = args[nature.mask?] as *const u64;
    if mode() != Mode::Replay {
        return None;
    }
    // SAFETY: null or a signal set of the program, whose first word holds all signals.
    unsafe { mask.as_ref().copied() }.map(without_ours)
}

/// What a point ends with.
///
/// # Safety
/// For a frame that [`before`] saw.
pub(crate) unsafe extern "C" fn after(frame: *mut Frame) -> usize {
    // SAFETY: the trampoline's frame.
    unsafe {
        let ends = (*frame).scratch[ENDS];
        if ends & REAPS != 0 {
            outside::may_have_reaped();
        } else {
            outside::may_have_waited();
        }
        leave(frame);
        note_interruption(frame, ends & SLEEPS != 0, ends & WOKEN != 0);
        let carries = Carries::from_word((*frame).scratch[CARRIES]);
        carries.behind((*frame).result as c_int as isize, (*frame).place);
        (*frame).result
    }
}

macro_rules! points {
    ($($name:ident = $symbol:literal $(: $nature:expr)?),* $(,)?) => {
        $(
            mod $name {
                use super::*;

                pub(super) static REAL: Real = Real::new($symbol, None);
                $crate::real::in_time!(REAL);
                static NATURE: Nature = points!(@nature $($nature)?);

                pub(super) unsafe extern "C" fn before(frame: *mut Frame) -> usize {
                    // SAFETY: forwarded.
                    unsafe { super::before(frame, &REAL, &NATURE) }
                }
            }
            trampoline!(aside $name, $name::before, after);
        )*

        look_up_early!($($name::REAL,)* real::at::control, real::at::request);
    };
    (@nature) => { PLAIN };
    (@nature $nature:expr) => { $nature };
}

#[rustfmt::skip]
points! {
    read = c"read": HEAR, readv = c"readv": HEAR, pread = c"pread": TAKE, pread64 = c"pread64": TAKE,
    preadv = c"preadv": TAKE, preadv64 = c"preadv64": TAKE, preadv2 = c"preadv2": TAKE,
    preadv64v2 = c"preadv64v2": TAKE, eventfd_read = c"eventfd_read": TAKE, __read_chk = c"__read_chk": HEAR,
    __pread_chk = c"__pread_chk": TAKE, __pread64_chk = c"__pread64_chk": TAKE, __read = c"__read": HEAR,
    __pread64 = c"__pread64": TAKE,
    write = c"write": GIVE, writev = c"writev": GIVE, pwrite = c"pwrite": GIVE, pwrite64 = c"pwrite64": GIVE,
    pwritev = c"pwritev": GIVE, pwritev64 = c"pwritev64": GIVE, pwritev2 = c"pwritev2": GIVE,
    pwritev64v2 = c"pwritev64v2": GIVE, eventfd_write = c"eventfd_write": GIVE, vdprintf = c"vdprintf": GIVE,
    __vdprintf_chk = c"__vdprintf_chk": GIVE, __write = c"__write": GIVE,
    __pwrite64 = c"__pwrite64": GIVE,
    open = c"open": opens(1), open64 = c"open64": opens(1), openat = c"openat": opens(2),
    openat64 = c"openat64": opens(2), creat = c"creat": MAKE, creat64 = c"creat64": MAKE, __open_2 = c"__open_2": opens(1),
    __open64_2 = c"__open64_2": opens(1), __openat_2 = c"__openat_2": opens(2), __openat64_2 = c"__openat64_2": opens(2),
    __open = c"__open": opens(1), __open64 = c"__open64": opens(1),
    close = c"close": GIVE, __close = c"__close": GIVE,
    fsync = c"fsync", fdatasync = c"fdatasync", msync = c"msync", tcdrain = c"tcdrain", fallocate = c"fallocate": GIVE,
    fallocate64 = c"fallocate64": GIVE, sync_file_range = c"sync_file_range", splice = c"splice": BOTH, tee = c"tee": BOTH,
    vmsplice = c"vmsplice": BOTH, copy_file_range = c"copy_file_range": BOTH, sendfile = c"sendfile": BOTH, sendfile64 = c"sendfile64": BOTH,
    sleep = c"sleep": NAP, usleep = c"usleep": Nature { woken: Woken::Fails, ..PLAIN },
    nanosleep = c"nanosleep": DOZE, __nanosleep = c"__nanosleep": DOZE,
    clock_nanosleep = c"clock_nanosleep": Nature { woken: Woken::ReturnsWithout(3), ..SLEEP },
    thrd_sleep = c"thrd_sleep": SLEEP,
    poll = c"poll": READY, __poll = c"__poll": READY, __poll_chk = c"__poll_chk": READY, ppoll = c"ppoll": masked(3),
    __ppoll_chk = c"__ppoll_chk": masked(3), select = c"select": READY, __select = c"__select": READY,
    pselect = c"pselect": masked(5), epoll_wait = c"epoll_wait": READY, epoll_pwait = c"epoll_pwait": masked(4),
    epoll_pwait2 = c"epoll_pwait2": masked(4),
    accept = c"accept": HEAR, accept4 = c"accept4": HEAR, connect = c"connect": BOTH, __connect = c"__connect": BOTH,
    recv = c"recv": hears(3), recvfrom = c"recvfrom": hears(3), recvmsg = c"recvmsg": hears(2), recvmmsg = c"recvmmsg": TAKE,
    __recv_chk = c"__recv_chk": TAKE, __recvfrom_chk = c"__recvfrom_chk": TAKE,
    send = c"send": GIVE, __send = c"__send": GIVE, sendto = c"sendto": GIVE, sendmsg = c"sendmsg": GIVE,
    sendmmsg = c"sendmmsg": GIVE,
    wait = c"wait": REAP, waitpid = c"waitpid": REAP, __waitpid = c"__waitpid": REAP, wait3 = c"wait3": REAP,
    wait4 = c"wait4": REAP, waitid = c"waitid": REAP,
    pause = c"pause": WAIT, sigsuspend = c"sigsuspend": SUSPEND, __sigsuspend = c"__sigsuspend": SUSPEND,
    sigwait = c"sigwait": RECEIVE, sigwaitinfo = c"sigwaitinfo": RECEIVE, sigtimedwait = c"sigtimedwait": RECEIVE,
    flock = c"flock": BOTH, lockf = c"lockf": BOTH, lockf64 = c"lockf64": BOTH,
    msgsnd = c"msgsnd", msgrcv = c"msgrcv", mq_send = c"mq_send", mq_timedsend = c"mq_timedsend",
    mq_receive = c"mq_receive", mq_timedreceive = c"mq_timedreceive",
}

/// Where a call of `fcntl` goes on: one on a lock may wait, and is a point; all others go straight on. So it is with
/// `ioctl`: the one that asks how much could be read sees what others wrote.
unsafe extern "C" fn before_control(_: usize, command: usize, _: usize, _: usize, _: usize, _place: usize) -> usize {
    if carried::locks_file(command) { locking as *const () as usize } else { real::at::control.address() }
}

unsafe extern "C" fn before_locking(frame: *mut Frame) -> usize {
    // SAFETY: the trampoline's frame.
    unsafe { before(frame, &real::at::control, &BOTH) }
}

trampoline!(private aside locking, before_locking, after);

detour!(
    /// `fcntl`
    fcntl, before_control
);
detour!(
    /// `fcntl64`
    fcntl64, before_control
);
detour!(
    /// `__fcntl`
    __fcntl, before_control
);

unsafe extern "C" fn before_request(_: usize, request: usize, _: usize, _: usize, _: usize, _place: usize) -> usize {
    let asks = request as u32 == carried::FIONREAD;
    if asks { asking as *const () as usize } else { real::at::request.address() }
}

unsafe extern "C" fn before_asking(frame: *mut Frame) -> usize {
    // SAFETY: the trampoline's frame.
    unsafe { before(frame, &real::at::request, &TAKE) }
}

trampoline!(private aside asking, before_asking, after);

detour!(
    /// `ioctl`
    ioctl, before_request
);
