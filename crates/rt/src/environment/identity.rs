//! `setuid` and its kin: a process changes who it is, which the kernel does for each thread by itself.
//!
//! libc has all threads do it: it sends each of them a signal of its own, and waits until
//! their handlers have made the call. Which threads there are by then, and where it strikes them, is a
//! matter of time; and it strikes our code, too. So the caller's change is one call in the recording, with the
//! result of the whole; what the handlers do is noted nowhere, and in a replay nobody is asked to.
//!
//! Apart from [`super::unseen`], which is about calls of the thread that began the operation.

use super::{call, is_on, unseen};
use crate::runtime::{self, Mode};
use crate::thread::{self, Thread};
use crate::writer;
use core::sync::atomic::{AtomicU64, Ordering};
use relive_sys::syscall::number::{SETGID, SETGROUPS, SETREGID, SETRESGID, SETRESUID, SETREUID, SETUID};

/// How many threads have the others do it at the moment, below their process, whose children have no such threads.
static CALLERS: AtomicU64 = AtomicU64::new(0);
const PID_BIT: u32 = 32;

/// One caller more, or less.
fn count(step: impl Fn(u64) -> u64) {
    let process = u64::from(runtime::pid()) << PID_BIT;
    let _ = CALLERS.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |found| {
        let callers = if found >> PID_BIT == process >> PID_BIT { found - process } else { 0 };
        Some(process | step(callers))
    });
}

/// Whether it is one of these calls.
pub(super) const fn is_changed_by(number: usize) -> bool {
    matches!(number, SETUID | SETGID | SETREUID | SETREGID | SETGROUPS | SETRESUID | SETRESGID)
}

/// Changes who the process is, with libc's function: the system call that this is, and what that returns.
pub fn change(number: usize, arguments: [usize; 6], function: impl FnOnce() -> isize) -> isize {
    let taking_part = |thread: &&mut Thread| is_on() && runtime::mode() != Mode::Off && !thread.unseen;
    let Some(thread) = thread::current_if_known().filter(taking_part) else { return function() };
    if runtime::mode() == Mode::Replay {
        // SAFETY: a call that writes nothing.
        return unsafe { call(number, arguments) };
    }
    let result = unseen(|| {
        count(|callers| callers + 1);
        let result = function();
        count(|callers| callers.saturating_sub(1));
        result
    });
    // SAFETY: a call without outputs.
    unsafe { writer::append_call(thread, number, result, &|_| ()) };
    result
}

/// Whether a call is that of libc's handler, in a thread that is to follow: up to the handler's end ([`returned`]) its calls
/// are none of the program's.
pub(super) fn follows(number: usize, thread: &mut Thread) -> bool {
    let callers = CALLERS.load(Ordering::Relaxed);
    let follows = is_changed_by(number)
        && callers >> PID_BIT == u64::from(runtime::pid())
        && callers as u32 != 0
        && runtime::mode() == Mode::Record;
    if follows {
        (thread.follows, thread.unseen) = (true, true);
    }
    follows
}

/// A handler returns.
pub(super) fn returned() {
    if let Some(thread) = thread::current_if_known().filter(|thread| thread.follows) {
        (thread.follows, thread.unseen) = (false, false);
    }
}
