//! Calls that a signal wakes, where its handler was put off to the call itself.
//!
//! A program that asks whether it was told to stop, and then waits, misses a signal that
//! strikes in between: natively that is a matter of nanoseconds. Put off to the thread's
//! next operation, each one that strikes in the stretch before the question, or behind
//! it, would be handled at the wait's beginning, and then waited for in vain. So such a
//! call ends as if the signal had struck a moment later: within it. What it returns is
//! recorded as for one that was really interrupted.

use super::was_interrupted;
use crate::real::set_errno;
use relive_rt::{Mode, mode, thread};
use relive_sys::syscall;
use relive_sys::trampoline::Frame;

const EINTR: i32 = 4;
/// `MSG_DONTWAIT`
const DO_NOT_WAIT: usize = 0x40;

/// How a call ends that a signal wakes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Woken {
    /// It is not woken, or what it does by then can't be left out.
    Never,
    /// With -1 and `EINTR`, whatever the handler's flags say.
    Fails,
    /// Likewise, if this argument, for what is left of a sleep, is null.
    FailsWithout(usize),
    /// With `EINTR` itself, if this argument is null.
    ReturnsWithout(usize),
    /// With what is left of a sleep: all of it.
    Left,
    /// With -1 and `EINTR`, if it would wait for its descriptor, and its handler restarts nothing. The flags in this
    /// argument may say that it does not wait.
    Waits(Option<usize>),
}

/// Whether a handler ran when the call with this frame was [entered](super::enter), and it ends by that: its result is in the frame.
///
/// # Safety
/// The frame must be of a call that was entered.
pub(super) unsafe fn ends(frame: *mut Frame, how: Woken) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        if mode() != Mode::Record || !was_interrupted(frame) {
            return false;
        }
        let arguments = &(*frame).args;
        let result = match how {
            Woken::Never => None,
            Woken::Fails => Some(usize::MAX),
            Woken::FailsWithout(rest) => (arguments[rest] == 0).then_some(usize::MAX),
            Woken::ReturnsWithout(rest) => (arguments[rest] == 0).then_some(EINTR as usize),
            Woken::Left => Some((arguments[0] as u32).min(i16::MAX as u32) as usize).filter(|&left| left != 0),
            Woken::Waits(flags) => {
                let waits = flags.is_none_or(|flags| arguments[flags] & DO_NOT_WAIT == 0);
                let restarts = thread::current_if_known().is_none_or(|thread| thread.signals.restarts);
                (waits && !restarts && would_wait(arguments[0] as u32)).then_some(usize::MAX)
            }
        };
        let Some(result) = result else { return false };
        if result == usize::MAX {
            set_errno(EINTR);
        }
        (*frame).result = result;
        true
    }
}

/// Whether to read from the descriptor is to wait, at this moment.
fn would_wait(descriptor: u32) -> bool {
    const TYPE: u32 = 0o170_000;
    const PIPE: u32 = 0o010_000;
    const DEVICE: u32 = 0o020_000;
    const SOCKET: u32 = 0o140_000;
    let waits = syscall::file_mode(descriptor).is_some_and(|mode| matches!(mode & TYPE, PIPE | DEVICE | SOCKET));
    waits && syscall::blocks(descriptor) && !syscall::is_readable(descriptor)
}
