//! Reader-writer locks, with two clocks each (Instant Replay's CREW).
//!
//! A reader takes `max(LC, W) + 1` and raises R; a writer joins both. So readers
//! are ordered after the writer before them and before the writer after them,
//! and not among themselves. Whose unlock it is, `__cur_writer` tells.

use crate::real::{self, Deadline, Object};
use crate::sharing;
use core::ffi::c_int;
use core::sync::atomic::Ordering;
use relive_order::Kind;
use relive_rt::object::Cell;
use relive_rt::{Mode, mode, record, replay, thread};
use relive_sys::front;

const CURRENT_WRITER: usize = 24;
const SHARED: usize = 28;
const EBUSY: c_int = 16;

fn field(lock: Object, offset: usize) -> u32 {
    // SAFETY: the program passed a lock of 56 bytes.
    unsafe { lock.cast::<u8>().add(offset).cast::<u32>().read_volatile() }
}

fn writers(lock: Object) -> &'static Cell {
    sharing::cell(lock as usize, field(lock, SHARED) != 0)
}

fn readers(lock: Object) -> &'static Cell {
    sharing::cell(lock as usize + 8, field(lock, SHARED) != 0)
}

fn record_acquired(lock: Object, kind: Kind, result: c_int) -> c_int {
    let (w, r) = (writers(lock), readers(lock));
    match (result, kind) {
        (0, Kind::ReadLock) => record::raising(w.clock.load(Ordering::Acquire), &r.clock, kind),
        (0, _) => record::shared_joining(&w.clock, r.clock.load(Ordering::Acquire), kind),
        (error, _) => record::failure(kind, error),
    }
    result
}

/// An attempt to acquire, by whichever call.
unsafe fn acquire(lock: Object, kind: Kind, place: usize, attempt: impl FnOnce() -> c_int) -> c_int {
    match mode() {
        Mode::Off => attempt(),
        Mode::Record => record_acquired(lock, kind, attempt()),
        Mode::Replay => {
            if let Some(error) = replay::failure(kind) {
                return error;
            }
            replay::enter(kind, place);
            // SAFETY: the program passed a lock.
            let met = unsafe {
                if kind == Kind::ReadLock { real::rwlock_tryrdlock(lock) } else { real::rwlock_trywrlock(lock) }
            };
            match met {
                0 => {}
                EBUSY => replay::busy(kind, place, lock as usize),
                error => replay::failed(kind, place, 0, error as i64),
            }
            replay::leave(kind, &[writers(lock)], false);
            0
        }
    }
}

macro_rules! acquire {
    ($($name:ident, $arity:tt, $front:ident, $kind:ident, $real:ident($($arg:ident: $ty:ty),*);)*) => {$(
        front!(#[doc = concat!("`", stringify!($name), "`")] $name, $arity, $front);

        unsafe extern "C" fn $front(lock: Object, $($arg: $ty,)* place: usize) -> c_int {
            // SAFETY: forwarded; the program keeps the function's contract.
            unsafe { acquire(lock, Kind::$kind, place, || real::$real(lock, $($arg),*)) }
        }
    )*};
}

acquire! {
    pthread_rwlock_rdlock, 1, rdlock, ReadLock, rwlock_rdlock();
    __pthread_rwlock_rdlock, 1, rdlock_alias, ReadLock, rwlock_rdlock();
    pthread_rwlock_tryrdlock, 1, tryrdlock, ReadLock, rwlock_tryrdlock();
    __pthread_rwlock_tryrdlock, 1, tryrdlock_alias, ReadLock, rwlock_tryrdlock();
    pthread_rwlock_timedrdlock, 2, timedrdlock, ReadLock, rwlock_timedrdlock(t: Deadline);
    pthread_rwlock_clockrdlock, 3, clockrdlock, ReadLock, rwlock_clockrdlock(clock: c_int, t: Deadline);
    pthread_rwlock_wrlock, 1, wrlock, WriteLock, rwlock_wrlock();
    __pthread_rwlock_wrlock, 1, wrlock_alias, WriteLock, rwlock_wrlock();
    pthread_rwlock_trywrlock, 1, trywrlock, WriteLock, rwlock_trywrlock();
    __pthread_rwlock_trywrlock, 1, trywrlock_alias, WriteLock, rwlock_trywrlock();
    pthread_rwlock_timedwrlock, 2, timedwrlock, WriteLock, rwlock_timedwrlock(t: Deadline);
    pthread_rwlock_clockwrlock, 3, clockwrlock, WriteLock, rwlock_clockwrlock(clock: c_int, t: Deadline);
}

front!(
    /// `pthread_rwlock_unlock`
    pthread_rwlock_unlock, 1, unlock
);
front!(
    /// `__pthread_rwlock_unlock`
    __pthread_rwlock_unlock, 1, unlock
);

unsafe extern "C" fn unlock(lock: Object, place: usize) -> c_int {
    match mode() {
        Mode::Off => {}
        Mode::Record => record_release(lock),
        Mode::Replay => {
            replay::enter(Kind::RwUnlock, place);
            let cell = writers(lock);
            // SAFETY: the program passed a lock.
            let result = unsafe { real::rwlock_unlock(lock) };
            replay::leave(Kind::RwUnlock, &[cell], false);
            return result;
        }
    }
    // SAFETY: the program passed a lock.
    unsafe { real::rwlock_unlock(lock) }
}

fn record_release(lock: Object) {
    let (w, r) = (writers(lock), readers(lock));
    let is_writer = thread::current_if_known().is_some_and(|t| field(lock, CURRENT_WRITER) == t.tid);
    if is_writer {
        record::shared_joining(&w.clock, r.clock.load(Ordering::Acquire), Kind::RwUnlock);
    } else {
        record::raising(w.clock.load(Ordering::Acquire), &r.clock, Kind::RwUnlock);
    }
}
