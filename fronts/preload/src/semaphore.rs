//! Semaphores, named ones too.
//!
//! A post is recorded before it takes effect, a wait after it succeeded. At every
//! prefix of the order so made there are at least as many posts as waits, so in a
//! replay a try-wait under the turn finds a token.

use crate::cancel;
use crate::real::{self, Object, Real, errno, set_errno};
use crate::sharing;
use core::ffi::c_int;
use relive_order::Kind;
use relive_rt::object::Cell;
use relive_rt::{Mode, mode, record, replay};
use relive_sys::trampoline::Frame;
use relive_sys::{front, trampoline};

/// Offset of the futex flag in glibc's `sem_t`: 0 if the semaphore is private to the process.
const SHARED: usize = 8;

fn cell(semaphore: Object) -> &'static Cell {
    // SAFETY: the program passed a semaphore of 32 bytes.
    let shared = unsafe { semaphore.cast::<u8>().add(SHARED).cast::<u32>().read_volatile() } != 0;
    sharing::cell(semaphore as usize, shared)
}

/// Stores `errno` and gives the C result.
fn fail(error: c_int) -> c_int {
    set_errno(error);
    -1
}

front!(
    /// `sem_post`
    sem_post, 1, post
);

unsafe extern "C" fn post(semaphore: Object, place: usize) -> c_int {
    // SAFETY: the program passed a semaphore.
    unsafe {
        match mode() {
            Mode::Off => real::sem_post(semaphore),
            Mode::Record => {
                record::shared(&cell(semaphore).clock, Kind::Post);
                let result = real::sem_post(semaphore);
                if result != 0 {
                    let error = errno();
                    record::failure(Kind::Post, error);
                    set_errno(error);
                }
                result
            }
            Mode::Replay => {
                let cell = cell(semaphore);
                replay::enter(Kind::Post, place);
                let result = real::sem_post(semaphore);
                replay::leave(Kind::Post, &[cell], false);
                replay::failure_of_last(Kind::Post).map_or(result, fail)
            }
        }
    }
}

unsafe fn replay_wait(semaphore: Object, place: usize) -> c_int {
    if let Some(error) = replay::failure(Kind::SemWait) {
        return fail(error);
    }
    replay::enter(Kind::SemWait, place);
    // SAFETY: the program passed a semaphore.
    if unsafe { real::sem_trywait(semaphore) } != 0 {
        replay::busy(Kind::SemWait, place, semaphore as usize);
    }
    replay::leave(Kind::SemWait, &[cell(semaphore)], false);
    0
}

fn record_waited(semaphore: Object, result: c_int) {
    if result == 0 {
        record::shared(&cell(semaphore).clock, Kind::SemWait);
    } else {
        let error = errno();
        record::failure(Kind::SemWait, error);
        set_errno(error);
    }
}

front!(
    /// `sem_trywait`
    sem_trywait, 1, trywait
);

unsafe extern "C" fn trywait(semaphore: Object, place: usize) -> c_int {
    // SAFETY: the program passed a semaphore.
    unsafe {
        match mode() {
            Mode::Off => real::sem_trywait(semaphore),
            Mode::Record => {
                let result = real::sem_trywait(semaphore);
                record_waited(semaphore, result);
                result
            }
            Mode::Replay => replay_wait(semaphore, place),
        }
    }
}

unsafe fn before_any(frame: *mut Frame, real: &Real) -> usize {
    // SAFETY: the trampoline's frame and the program's semaphore.
    unsafe {
        if cancel::enter(frame, cancel::unwound) {
            return cancel::strike((*frame).place);
        }
        if mode() != Mode::Replay {
            return real.address();
        }
        (*frame).result = replay_wait((*frame).args[0] as Object, (*frame).place) as u32 as usize;
    }
    0
}

unsafe extern "C" fn after_any(frame: *mut Frame) -> usize {
    // SAFETY: the trampoline's frame and the program's semaphore.
    unsafe {
        cancel::leave(frame);
        if mode() == Mode::Record {
            record_waited((*frame).args[0] as Object, (*frame).result as c_int);
        }
        (*frame).result
    }
}

unsafe extern "C" fn before_wait(frame: *mut Frame) -> usize {
    // SAFETY: forwarded.
    unsafe { before_any(frame, &real::at::sem_wait) }
}

unsafe extern "C" fn before_timedwait(frame: *mut Frame) -> usize {
    // SAFETY: forwarded.
    unsafe { before_any(frame, &real::at::sem_timedwait) }
}

unsafe extern "C" fn before_clockwait(frame: *mut Frame) -> usize {
    // SAFETY: forwarded.
    unsafe { before_any(frame, &real::at::sem_clockwait) }
}

trampoline!(
    /// `sem_wait`
    aside sem_wait, before_wait, after_any
);
trampoline!(
    /// `sem_timedwait`
    aside sem_timedwait, before_timedwait, after_any
);
trampoline!(
    /// `sem_clockwait`
    aside sem_clockwait, before_clockwait, after_any
);

front!(
    /// `sem_getvalue`
    sem_getvalue, 2, getvalue
);

/// The value is whatever other threads left at that moment: stored as a result of an event of its own.
unsafe extern "C" fn getvalue(semaphore: Object, out: *mut c_int, place: usize) -> c_int {
    // SAFETY: the program passed a semaphore and a place for the value.
    unsafe {
        match mode() {
            Mode::Off => real::sem_getvalue(semaphore, out),
            Mode::Record => {
                let result = real::sem_getvalue(semaphore, out);
                if result == 0 {
                    record::result(*out as i64);
                    record::alone(Kind::LibcCall);
                }
                result
            }
            Mode::Replay => {
                replay::enter(Kind::LibcCall, place);
                if let Some(value) = replay::value() {
                    *out = value as c_int;
                }
                replay::leave(Kind::LibcCall, &[], false);
                0
            }
        }
    }
}
