//! Sending signals: one event before the effect.
//!
//! A replay doesn't send what a handler of this process would get: the receiver
//! runs the handler where the recording says. What the kernel itself acts on
//! (an end by default, a wait for the signal, another process) is sent again.

use super::install::is_handled;
use crate::real::{self, Object, errno, set_errno};
use core::ffi::c_int;
use relive_order::Kind;
use relive_rt::environment::{self, carried};
use relive_rt::object::{Internal, internal};
use relive_rt::{Mode, mode, outside, record, replay, thread};
use relive_sys::{detour, front};

/// Whom a call sends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// The calling thread, which is struck before the call returns.
    Caller,
    /// This process or a thread of it.
    Here,
    /// Somebody else.
    Elsewhere,
}

fn process(pid: c_int) -> Target {
    if pid == 0 || pid == -1 || pid.unsigned_abs() == environment::own_id() { Target::Here } else { Target::Elsewhere }
}

/// `effect` returns 0 or an error number.
fn send(number: c_int, target: Target, place: usize, effect: impl FnOnce() -> c_int) -> c_int {
    match mode() {
        Mode::Off => effect(),
        Mode::Record => {
            record::shared(&internal(Internal::Signals).clock, Kind::Kill);
            outside::may_wake();
            let error = environment::unseen(effect);
            if error != 0 {
                record::failure(Kind::Kill, error);
            }
            wait_if_stopped(number);
            // What the process sends to itself has struck when the call returns.
            record::arrive();
            error
        }
        Mode::Replay => {
            replay::enter(Kind::Kill, place);
            let suppressed = number == 0 || (target == Target::Here && is_handled(number));
            let leave = || replay::leave(Kind::Kill, &carried::clocks_of_signals(), false);
            // It may be the last thing that this process does, and whoever makes it go on again may need the event.
            let strikes = !suppressed && target != Target::Elsewhere;
            if strikes {
                leave();
            }
            let error = if suppressed { 0 } else { environment::unseen(effect) };
            if !strikes {
                leave();
            }
            let error = replay::failure_of_last(Kind::Kill).unwrap_or(if suppressed { 0 } else { error });
            wait_if_stopped(number);
            replay::deliver_due();
            error
        }
    }
}

/// A process that stopped itself has waited for whoever made it go on.
fn wait_if_stopped(number: c_int) {
    if stops(number) {
        outside::may_have_waited();
    }
}

/// Whether a signal stops the process by default.
fn stops(number: c_int) -> bool {
    const FIRST: c_int = 19;
    const LAST: c_int = 22;
    (FIRST..=LAST).contains(&number)
}

/// Where a call of `raise` goes on. Only a stop is our business; a handler may leave all others by a jump or an exception.
unsafe extern "C" fn before_raise(number: usize, _: usize, _: usize, _: usize, _: usize, _place: usize) -> usize {
    if stops(number as c_int) { raise_and_wait as *const () as usize } else { real::at::raise.address() }
}

unsafe extern "C" fn raise_and_wait(number: c_int) -> c_int {
    outside::may_wake();
    // SAFETY: forwarded.
    let result = unsafe { real::raise(number) };
    outside::may_have_waited();
    result
}

detour!(
    /// `raise`
    raise, before_raise
);
detour!(
    /// `gsignal`
    gsignal, before_raise
);

/// The same for calls that return -1 and set `errno`.
fn send_or_fail(number: c_int, target: Target, place: usize, effect: impl FnOnce() -> c_int) -> c_int {
    let before = errno();
    let error = send(number, target, place, || if effect() == 0 { 0 } else { errno() });
    set_errno(if error == 0 { before } else { error });
    if error == 0 { 0 } else { -1 }
}

fn thread_of(handle: usize) -> Target {
    // SAFETY: no arguments.
    if handle == unsafe { real::thread_self() } { Target::Caller } else { Target::Here }
}

front!(
    /// `pthread_kill`
    pthread_kill, 2, thread_kill
);

unsafe extern "C" fn thread_kill(handle: usize, number: c_int, place: usize) -> c_int {
    // SAFETY: forwarded.
    send(number, thread_of(handle), place, || unsafe { real::thread_kill(handle, number) })
}

front!(
    /// `pthread_sigqueue`
    pthread_sigqueue, 3, thread_queue
);

unsafe extern "C" fn thread_queue(handle: usize, number: c_int, value: Object, place: usize) -> c_int {
    // SAFETY: forwarded. To oneself it is put off like any other, because its place isn't known by its registers.
    send(number, Target::Here, place, || unsafe { real::thread_queue(handle, number, value) })
}

front!(
    /// `kill`
    kill, 2, kill_front
);

unsafe extern "C" fn kill_front(pid: c_int, number: c_int, place: usize) -> c_int {
    // SAFETY: forwarded.
    send_or_fail(number, process(pid), place, || unsafe { real::kill(pid, number) })
}

front!(
    /// `killpg`
    killpg, 2, group_front
);

unsafe extern "C" fn group_front(group: c_int, number: c_int, place: usize) -> c_int {
    // SAFETY: forwarded.
    send_or_fail(number, process(group), place, || unsafe { real::killpg(group, number) })
}

front!(
    /// `tgkill`
    tgkill, 3, tgkill_front
);

unsafe extern "C" fn tgkill_front(pid: c_int, tid: c_int, number: c_int, place: usize) -> c_int {
    let own = thread::current_if_known().is_some_and(|t| t.tid == tid as u32);
    let target = if own { Target::Caller } else { process(pid) };
    // SAFETY: forwarded.
    send_or_fail(number, target, place, || unsafe { real::tgkill(pid, tid, number) })
}

front!(
    /// `sigqueue`
    sigqueue, 3, queue_front
);

unsafe extern "C" fn queue_front(pid: c_int, number: c_int, value: Object, place: usize) -> c_int {
    // SAFETY: forwarded.
    send_or_fail(number, process(pid), place, || unsafe { real::sigqueue(pid, number, value) })
}
