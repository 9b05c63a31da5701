//! Spin locks. Like mutexes, with the clock in the table: the lock is one word.

use crate::real::{self, Object};
use crate::sharing;
use core::ffi::c_int;
use relive_order::Kind;
use relive_rt::{Mode, mode, record, replay};
use relive_sys::front;

fn acquire(lock: Object, place: usize, attempt: unsafe fn(Object) -> c_int) -> c_int {
    match mode() {
        // SAFETY: the program passed a spin lock.
        Mode::Off => unsafe { attempt(lock) },
        Mode::Record => {
            // SAFETY: the program passed a spin lock.
            let result = unsafe { attempt(lock) };
            if result == 0 {
                record::shared(&sharing::cell_by_mapping(lock as usize).clock, Kind::SpinLock);
            } else {
                record::failure(Kind::SpinLock, result);
            }
            result
        }
        Mode::Replay => {
            if let Some(error) = replay::failure(Kind::SpinLock) {
                return error;
            }
            replay::enter(Kind::SpinLock, place);
            // SAFETY: the program passed a spin lock.
            if unsafe { real::spin_trylock(lock) } != 0 {
                replay::busy(Kind::SpinLock, place, lock as usize);
            }
            replay::leave(Kind::SpinLock, &[sharing::cell_by_mapping(lock as usize)], false);
            0
        }
    }
}

front!(
    /// `pthread_spin_lock`
    pthread_spin_lock, 1, spin_lock
);

unsafe extern "C" fn spin_lock(lock: Object, place: usize) -> c_int {
    acquire(lock, place, real::spin_lock)
}

front!(
    /// `pthread_spin_trylock`
    pthread_spin_trylock, 1, spin_trylock
);

unsafe extern "C" fn spin_trylock(lock: Object, place: usize) -> c_int {
    acquire(lock, place, real::spin_trylock)
}

front!(
    /// `pthread_spin_unlock`
    pthread_spin_unlock, 1, spin_unlock
);

unsafe extern "C" fn spin_unlock(lock: Object, place: usize) -> c_int {
    match mode() {
        Mode::Off => {}
        Mode::Record => record::shared(&sharing::cell_by_mapping(lock as usize).clock, Kind::SpinUnlock),
        Mode::Replay => {
            replay::enter(Kind::SpinUnlock, place);
            // SAFETY: the program passed a spin lock.
            let result = unsafe { real::spin_unlock(lock) };
            replay::leave(Kind::SpinUnlock, &[sharing::cell_by_mapping(lock as usize)], false);
            return result;
        }
    }
    // SAFETY: the program passed a spin lock.
    unsafe { real::spin_unlock(lock) }
}
