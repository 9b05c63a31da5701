//! Condition variables.
//!
//! A wait is two events: the mutex is about to be released, and the thread woke
//! and holds it again. The second is on mutex and condition at once, and comes
//! after the signal that caused it because a signal's event precedes its effect.
//! In a replay nobody sleeps in the condition: the turn of the second event is
//! the wake-up. So a recording adds no wake-up that the program would not have
//! had, and a replay returns from a wait only where the recording did.

use crate::cancel;
use crate::mutex::{self, Mutex};
use crate::real::{self, Object};
use crate::sharing;
use core::ffi::c_int;
use relive_order::Kind;
use relive_rt::object::Cell;
use relive_rt::{Mode, mode, record, replay};
use relive_sys::trampoline::Frame;
use relive_sys::{front, trampoline};

/// Offset of `__wrefs` in glibc's `pthread_cond_t`; bit 0 says that it is shared between processes.
const WREFS: usize = 36;

/// Slot of [`Frame::scratch`]: the wait fails, and is no event.
const FAILS: usize = 1;

fn cell(condition: Object) -> &'static Cell {
    // SAFETY: the program passed a condition variable of 48 bytes.
    let shared = unsafe { condition.cast::<u8>().add(WREFS).cast::<u32>().read_volatile() } & 1 != 0;
    sharing::cell(condition as usize, shared)
}

/// Before a wait of any kind: arguments are the condition and the mutex first.
pub(crate) unsafe fn before_wait(frame: *mut Frame, real: &real::Real) -> usize {
    // SAFETY: the trampoline's frame, and objects that the program passed.
    unsafe {
        let (condition, m) = ((*frame).args[0] as Object, (*frame).args[1] as *mut Mutex);
        (*frame).scratch[FAILS] = usize::from(mode() != Mode::Off && !Mutex::may_unlock(m));
        if (*frame).scratch[FAILS] != 0 {
            // A mutex that tells that it is not the thread's: it fails at once, and alike in a replay.
            return real.address();
        }
        match mode() {
            Mode::Off => {
                cancel::enter(frame, unwound);
                real.address()
            }
            Mode::Record => {
                mutex::record_release(m, Kind::WaitRelease);
                cancel::enter(frame, unwound);
                real.address()
            }
            Mode::Replay => {
                let place = (*frame).place;
                mutex::release(m, Kind::WaitRelease, place, || real::mutex_unlock(m.cast()));
                let cancelled = cancel::enter(frame, unwound);
                replay::enter(Kind::Wake, place);
                let result = replay::value().map_or(0, |v| v as c_int);
                mutex::replay_retake(m, Kind::Wake, result, place);
                replay::leave(Kind::Wake, &[Mutex::cell(m), cell(condition)], false);
                (*frame).result = result as u32 as usize;
                if cancelled { cancel::strike(place) } else { 0 }
            }
        }
    }
}

pub(crate) unsafe extern "C" fn after_wait(frame: *mut Frame) -> usize {
    // SAFETY: the trampoline's frame, and objects that the program passed.
    unsafe {
        cancel::leave(frame);
        let result = (*frame).result as c_int;
        if mode() == Mode::Record && (*frame).scratch[FAILS] == 0 {
            let m = (*frame).args[1] as *mut Mutex;
            if result == mutex::EOWNERDEAD {
                mutex::join_dead_owner(m);
            }
            if result != 0 {
                record::result(result as i64);
            }
            mutex::record_wake(m, cell((*frame).args[0] as Object));
        }
        (*frame).result
    }
}

/// A cancelled wait never returns: libc has taken the mutex again by now.
pub(crate) unsafe extern "C" fn unwound(frame: *mut Frame) {
    // SAFETY: a frame that `before_wait` saw, and objects that the program passed.
    unsafe {
        if cancel::unwinding(frame) {
            mutex::record_wake((*frame).args[1] as *mut Mutex, cell((*frame).args[0] as Object));
            cancel::acted();
        }
    }
}

unsafe extern "C" fn before_plain(frame: *mut Frame) -> usize {
    // SAFETY: forwarded.
    unsafe { before_wait(frame, &real::at::cond_wait) }
}

unsafe extern "C" fn before_timed(frame: *mut Frame) -> usize {
    // SAFETY: forwarded.
    unsafe { before_wait(frame, &real::at::cond_timedwait) }
}

unsafe extern "C" fn before_clock(frame: *mut Frame) -> usize {
    // SAFETY: forwarded.
    unsafe { before_wait(frame, &real::at::cond_clockwait) }
}

trampoline!(
    /// `pthread_cond_wait`
    aside pthread_cond_wait, before_plain, after_wait
);
trampoline!(
    /// `pthread_cond_timedwait`
    aside pthread_cond_timedwait, before_timed, after_wait
);
trampoline!(
    /// `pthread_cond_clockwait`
    aside pthread_cond_clockwait, before_clock, after_wait
);

/// The event of a signal or broadcast, before its effect. In a replay there is no effect: nobody sleeps there.
fn notify(condition: Object, kind: Kind, place: usize) {
    match mode() {
        Mode::Off => {}
        Mode::Record => record::shared(&cell(condition).clock, kind),
        Mode::Replay => {
            replay::enter(kind, place);
            replay::leave(kind, &[cell(condition)], false);
        }
    }
}

front!(
    /// `pthread_cond_signal`
    pthread_cond_signal, 1, signal
);

pub(crate) unsafe extern "C" fn signal(condition: Object, place: usize) -> c_int {
    notify(condition, Kind::Signal, place);
    // SAFETY: the program passed a condition variable.
    unsafe { real::cond_signal(condition) }
}

front!(
    /// `pthread_cond_broadcast`
    pthread_cond_broadcast, 1, broadcast
);

pub(crate) unsafe extern "C" fn broadcast(condition: Object, place: usize) -> c_int {
    notify(condition, Kind::Broadcast, place);
    // SAFETY: the program passed a condition variable.
    unsafe { real::cond_broadcast(condition) }
}
