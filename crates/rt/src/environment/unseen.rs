//! Operations of libc that the recording knows as a whole: what calls they make
//! is none of the program's doing.
//!
//! Apart because these calls go another way than all others: they are made in the
//! recording and in a replay, but neither noted nor looked for.

use super::{Program, alone, heap, images, is_on, memory, own_id, processes};
use crate::runtime::{self, Mode};
use crate::thread;
use relive_calls::Resolved;
use relive_sys::dispatch;
use relive_sys::syscall::number::{DUP2, DUP3, EXECVE, EXECVEAT, GETPID, GETTID, MMAP, OPENAT, PRLIMIT64};

/// # Safety
/// As for the call itself.
pub(super) unsafe fn carry_out(number: usize, arguments: &[usize; 6]) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(thread) = thread::current_if_known().filter(|thread| thread.unseen) {
            if matches!(number, EXECVE | EXECVEAT) {
                return images::carry_out(thread, number, arguments);
            }
            if number == MMAP {
                return memory::map_apart(arguments);
            }
            if processes::sends_signal(number) && runtime::process_mode() == Mode::Replay {
                return processes::send(number, arguments);
            }
            if runtime::process_mode() == Mode::Replay
                && let Ok(Resolved::Emulate(_)) = relive_calls::resolve(number, arguments, &Program)
            {
                return pretended(number, arguments);
            }
        }
        dispatch::program_call(number, arguments)
    }
}

/// What a call that is not asked for in a replay returns to libc, which only goes on if it succeeds: for a child it sets
/// up descriptors that are not there.
fn pretended(number: usize, arguments: &[usize; 6]) -> isize {
    /// Not one that a program names.
    const OPENED: isize = 1 << 16;
    match number {
        GETPID => own_id() as isize,
        DUP2 | DUP3 => arguments[1] as isize,
        // What libc asks for to check an argument, or to name itself.
        // SAFETY: libc's own call.
        GETTID | PRLIMIT64 => unsafe { dispatch::program_call(number, arguments) },
        OPENAT => OPENED,
        _ => 0,
    }
}

/// Runs what libc does for an operation that the recording knows as a whole: the calls that it makes are none of the
/// program's, and how many there are may depend on what other threads do at that moment.
pub fn unseen<R>(operation: impl FnOnce() -> R) -> R {
    let Some(thread) = thread::current_if_known().filter(|_| is_on()) else { return operation() };
    let before = core::mem::replace(&mut thread.unseen, true);
    heap::ask();
    let result = operation();
    thread.unseen = before;
    result
}

/// Runs a fork of libc's: its own locks, and the handlers of `pthread_atfork` that it runs, come in order. Handlers of signals
/// wait: they may make processes, too. In the child it returns as well.
pub fn in_turn_to_fork<R>(fork: impl FnOnce() -> R) -> R {
    let makes_process = |now| {
        if let Some(thread) = thread::current_if_known() {
            thread.signals.makes_process = now;
        }
    };
    let fork = || {
        makes_process(true);
        let result = fork();
        makes_process(false);
        result
    };
    if is_on() { processes::in_turn(fork) } else { fork() }
}

/// The id, as the program sees it, of a process that was made unseen.
pub fn child_made(present: u32) -> u32 {
    if !is_on() {
        return present;
    }
    let seen = processes::settle(present as isize);
    alone::made(present as isize);
    seen as u32
}
