//! C11 `threads.h`: the same objects under other names.
//!
//! glibc's `mtx_t` is its mutex, `cnd_t` its condition variable, `thrd_t` its
//! `pthread_t`. These functions call libc's internals, past the fronts of their
//! POSIX kin, so each has one here that shares the gate with them. Only the
//! results are spelt differently.

use crate::condition;
use crate::mutex::{self, Mutex};
use crate::real::{self, Deadline, Object};
use crate::signals;
use crate::threads::{self, CHILD};
use core::ffi::c_int;
use relive_rt::{environment, process};
use relive_sys::trampoline::Frame;
use relive_sys::{front, trampoline};

const SUCCESS: c_int = 0;
const BUSY: c_int = 1;
const ERROR: c_int = 2;
const NO_MEMORY: c_int = 3;
const TIMED_OUT: c_int = 4;

/// What `threads.h` calls an error number.
fn result(error: c_int) -> c_int {
    const ENOMEM: c_int = 12;
    const EBUSY: c_int = 16;
    const ETIMEDOUT: c_int = 110;
    match error {
        0 => SUCCESS,
        ENOMEM => NO_MEMORY,
        EBUSY => BUSY,
        ETIMEDOUT => TIMED_OUT,
        _ => ERROR,
    }
}

front!(
    /// `mtx_lock`
    mtx_lock, 1, mtx_lock_front
);

unsafe extern "C" fn mtx_lock_front(m: *mut Mutex, place: usize) -> c_int {
    // SAFETY: forwarded.
    result(unsafe { mutex::lock(m, place) })
}

front!(
    /// `mtx_trylock`
    mtx_trylock, 1, mtx_trylock_front
);

unsafe extern "C" fn mtx_trylock_front(m: *mut Mutex, place: usize) -> c_int {
    // SAFETY: forwarded.
    result(unsafe { mutex::trylock(m, place) })
}

front!(
    /// `mtx_timedlock`
    mtx_timedlock, 2, mtx_timedlock_front
);

unsafe extern "C" fn mtx_timedlock_front(m: *mut Mutex, deadline: Deadline, place: usize) -> c_int {
    // SAFETY: forwarded.
    result(unsafe { mutex::timedlock(m, deadline, place) })
}

front!(
    /// `mtx_unlock`
    mtx_unlock, 1, mtx_unlock_front
);

unsafe extern "C" fn mtx_unlock_front(m: *mut Mutex, place: usize) -> c_int {
    // SAFETY: forwarded.
    result(unsafe { mutex::unlock(m, place) })
}

front!(
    /// `cnd_signal`
    cnd_signal, 1, cnd_signal_front
);

unsafe extern "C" fn cnd_signal_front(condition: Object, place: usize) -> c_int {
    // SAFETY: forwarded.
    result(unsafe { condition::signal(condition, place) })
}

front!(
    /// `cnd_broadcast`
    cnd_broadcast, 1, cnd_broadcast_front
);

unsafe extern "C" fn cnd_broadcast_front(condition: Object, place: usize) -> c_int {
    // SAFETY: forwarded.
    result(unsafe { condition::broadcast(condition, place) })
}

unsafe extern "C" fn before_wait(frame: *mut Frame) -> usize {
    // SAFETY: forwarded.
    unsafe { condition::before_wait(frame, &real::at::cond_wait) }
}

unsafe extern "C" fn before_timedwait(frame: *mut Frame) -> usize {
    // SAFETY: forwarded.
    unsafe { condition::before_wait(frame, &real::at::cond_timedwait) }
}

unsafe extern "C" fn after_wait(frame: *mut Frame) -> usize {
    // SAFETY: forwarded.
    result(unsafe { condition::after_wait(frame) } as c_int) as usize
}

trampoline!(
    /// `cnd_wait`
    aside cnd_wait, before_wait, after_wait
);
trampoline!(
    /// `cnd_timedwait`
    aside cnd_timedwait, before_timedwait, after_wait
);

unsafe extern "C" fn before_create(frame: *mut Frame) -> usize {
    if environment::is_on() {
        // The other function takes a stack of ours; both make the same thread, whose result is a number in either.
        // SAFETY: the trampoline's frame.
        unsafe {
            let [handle, start, argument, ..] = (*frame).args;
            (*frame).args = [handle, 0, start, argument, 0, 0];
            return threads::before_create(frame);
        }
    }
    // SAFETY: the trampoline's frame.
    threads::prepare(unsafe { &mut *frame }, 1, core::ptr::null_mut(), &real::at::c11_create)
}

unsafe extern "C" fn after_create(frame: *mut Frame) -> usize {
    if environment::is_on() {
        // SAFETY: the trampoline's frame.
        return result(unsafe { threads::after_create(frame) } as c_int) as usize;
    }
    // SAFETY: the trampoline's frame.
    let frame = unsafe { &mut *frame };
    let child = frame.scratch[CHILD] as process::Child;
    if !child.is_null() {
        signals::let_through(frame);
        let error = frame.result as c_int;
        // SAFETY: creation stored the handle there if it succeeded.
        let handle = if error == SUCCESS { unsafe { *(frame.args[0] as *const usize) } } else { 0 };
        // SAFETY: the block that `before_create` made.
        unsafe { process::after_create(child, handle, false, error, frame.place) };
    }
    frame.result
}

trampoline!(
    /// `thrd_create`
    aside thrd_create, before_create, after_create
);

unsafe extern "C" fn before_join(frame: *mut Frame) -> usize {
    // SAFETY: forwarded.
    unsafe { threads::before_any_join(frame, &real::at::c11_join, &real::at::c11_join) }
}

trampoline!(
    /// `thrd_join`
    aside thrd_join, before_join, threads::after_any_join
);

front!(
    /// `thrd_detach`
    thrd_detach, 1, thrd_detach_front
);

unsafe extern "C" fn thrd_detach_front(handle: usize, place: usize) -> c_int {
    // SAFETY: forwarded.
    result(unsafe { threads::detach(handle, place) })
}
