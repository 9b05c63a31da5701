//! Calls that are no cancellation points and tell threads of each other where the
//! environment is recorded: by names of files and what the kernel says of them, by
//! descriptors that are made ready, and by signals.
//!
//! Apart from `cancel/points.rs` because these neither wait nor count themselves, and
//! without a recorded environment they go straight on: only that a sleeper may wake is
//! said in every recording.

use crate::real::{Real, look_up_early};
use crate::variadic::{Call, entry, steps};
use core::arch::naked_asm;
use relive_rt::environment::carried::{self, Carries};
use relive_rt::outside;
use relive_sys::detour;

/// What an entry is about.
#[derive(Debug)]
struct Told {
    real: &'static Real,
    carries: Carries,
}

const START: usize = 0;
const RUNNING: usize = 1;

steps!(telling, step);

unsafe extern "C" fn step(call: *mut Call<Told>) -> usize {
    // SAFETY: the assembly's frame.
    let call = unsafe { &mut *call };
    if call.state == START {
        call.state = RUNNING;
        if carried::is_ordered() {
            call.subject.carries.before(call.frame.place);
        }
        if !call.subject.carries.only_looks() {
            outside::may_wake();
        }
        return call.subject.real.address();
    }
    if carried::is_ordered() {
        // Of results only the sign counts; those that are pointers are of calls that look in any case.
        call.subject.carries.ended((call.frame.result as i32).max(-1) as isize, call.frame.place);
    }
    0
}

/// Functions that only look. Where nothing has to be said of these they become libc's at once: what behind the call
/// returns to where it came from, the processor has forgotten by then.
macro_rules! looked {
    ($($name:ident = $symbol:literal),* $(,)?) => {
        $(
            mod $name {
                use super::*;

                pub(super) static REAL: Real = Real::new($symbol, None);
                $crate::real::in_time!(REAL);
                static SUBJECT: Told = Told { real: &REAL, carries: Carries::LOOKS };

                #[unsafe(naked)]
                unsafe extern "C-unwind" fn ordered() {
                    naked_asm!(
                        ".cfi_startproc",
                        "lea r11, [rip + {subject}]",
                        "jmp {steps}",
                        ".cfi_endproc",
                        subject = sym SUBJECT,
                        steps = sym telling,
                    )
                }

                pub(super) unsafe extern "C" fn before(
                    _: usize, _: usize, _: usize, _: usize, _: usize, _place: usize,
                ) -> usize {
                    if carried::is_ordered() { ordered as *const () as usize } else { REAL.address() }
                }
            }
            detour!(#[doc = concat!("`", stringify!($name), "`")] $name, $name::before);
        )*

        const _: () = {
            look_up_early!($($name::REAL),*);
        };
    };
}

#[rustfmt::skip]
looked! {
    stat = c"stat", stat64 = c"stat64", lstat = c"lstat", lstat64 = c"lstat64", fstat = c"fstat", fstat64 = c"fstat64",
    fstatat = c"fstatat", fstatat64 = c"fstatat64", statx = c"statx", access = c"access", faccessat = c"faccessat",
    euidaccess = c"euidaccess", eaccess = c"eaccess", readlink = c"readlink", readlinkat = c"readlinkat",
    opendir = c"opendir",
}

const GIVE: Carries = Carries::GIVES;
const CHANGE: Carries = Carries::CHANGES_AND_LOOKS;

macro_rules! told {
    ($($name:ident = $symbol:literal: $carries:expr),* $(,)?) => {
        $(
            mod $name {
                use super::*;

                pub(super) static REAL: Real = Real::new($symbol, None);
                $crate::real::in_time!(REAL);
                entry!($name, telling, Told = Told { real: &REAL, carries: $carries });
            }
        )*

        look_up_early!($($name::REAL),*);
    };
}

#[rustfmt::skip]
told! {
    unlink = c"unlink": CHANGE, unlinkat = c"unlinkat": CHANGE, remove = c"remove": CHANGE, rmdir = c"rmdir": CHANGE,
    rename = c"rename": CHANGE, renameat = c"renameat": CHANGE, renameat2 = c"renameat2": CHANGE,
    mkdir = c"mkdir": CHANGE, mkdirat = c"mkdirat": CHANGE, link = c"link": CHANGE, linkat = c"linkat": CHANGE,
    symlink = c"symlink": CHANGE, symlinkat = c"symlinkat": CHANGE, mkfifo = c"mkfifo": CHANGE,
    mkfifoat = c"mkfifoat": CHANGE, mknod = c"mknod": CHANGE, mknodat = c"mknodat": CHANGE,
    mkstemp = c"mkstemp": CHANGE, mkstemp64 = c"mkstemp64": CHANGE, mkostemp = c"mkostemp": CHANGE,
    mkostemp64 = c"mkostemp64": CHANGE, mkdtemp = c"mkdtemp": CHANGE,
    truncate = c"truncate": GIVE, truncate64 = c"truncate64": GIVE, ftruncate = c"ftruncate": GIVE,
    ftruncate64 = c"ftruncate64": GIVE, posix_fallocate = c"posix_fallocate": GIVE,
    posix_fallocate64 = c"posix_fallocate64": GIVE,
    shutdown = c"shutdown": GIVE, listen = c"listen": GIVE, bind = c"bind": GIVE, dup2 = c"dup2": GIVE,
    dup3 = c"dup3": GIVE, close_range = c"close_range": GIVE, closefrom = c"closefrom": GIVE,
    epoll_ctl = c"epoll_ctl": GIVE, timerfd_settime = c"timerfd_settime": GIVE,
    sigpending = c"sigpending": Carries::RECEIVES, pidfd_send_signal = c"pidfd_send_signal": Carries::SENDS,
}
