//! The uncontended lock and unlock of a normal mutex, by ourselves.
//!
//! A recorded operation would be two calls, ours and libc's; this saves the inner
//! one, which costs about as much as the event. What libc does where nobody waits
//! is part of what debuggers and its own inlined locks rely on, and has been the
//! same since 2.28: the word goes from 0 to 1 and back, the owner and the number
//! of users are noted. Whatever else there is to a lock (waiting, other types,
//! elision, a process with one thread, another libc) is libc's.

use super::{Mutex, SHARED};
use crate::real;
use core::ffi::{CStr, c_int};
use core::sync::atomic::{AtomicI32, Ordering};
use relive_rt::thread;
use relive_sys::{syscall, tls};

/// Releases of glibc 2 whose normal mutexes work as described here.
const KNOWN: core::ops::RangeInclusive<u32> = 28..=42;

/// The bits of the kind that leave a normal mutex one: process-shared, and never elided.
const NORMAL_BITS: c_int = SHARED | 512;

/// Looks whether this C library is one that is known.
pub(crate) fn learn() {
    // SAFETY: returns a string that stays.
    let version = unsafe { CStr::from_ptr(real::libc_version()) }.to_bytes();
    let minor = version.strip_prefix(b"2.").unwrap_or_default();
    let digits = minor.iter().take_while(|b| b.is_ascii_digit());
    let minor = digits.fold(0u32, |n, b| n.saturating_mul(10).saturating_add(u32::from(b - b'0')));
    if KNOWN.contains(&minor) {
        thread::know_locks();
    }
}

/// Takes a free normal mutex. `false` if it isn't free, not normal, or libc has to do it.
///
/// # Safety
/// `m` must be a mutex of the program.
#[inline(always)]
pub(super) unsafe fn try_acquire(m: *mut Mutex) -> bool {
    let owner = tls::get::<{ tls::OWNER }>();
    // SAFETY: the caller's promise; the owner and the users belong to whoever holds the lock.
    unsafe {
        if owner == 0 || (*m).kind & !NORMAL_BITS != 0 {
            return false;
        }
        let word = AtomicI32::from_ptr(&raw mut (*m).lock);
        if word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        (*m).owner = owner as c_int;
        (*m).users = (*m).users.wrapping_add(1);
    }
    true
}

/// Releases a mutex of the normal type.
///
/// # Safety
/// `m` must be a mutex of the program whose release is the calling thread's to make.
#[inline(always)]
pub(super) unsafe fn release(m: *mut Mutex) -> c_int {
    // SAFETY: the caller's promise. Once the word is 0 the mutex may be gone.
    unsafe {
        let kind = (*m).kind;
        if tls::get::<{ tls::OWNER }>() == 0 || kind & !NORMAL_BITS != 0 {
            return real::known::mutex_unlock(m.cast());
        }
        (*m).owner = 0;
        (*m).users = (*m).users.wrapping_sub(1);
        if AtomicI32::from_ptr(&raw mut (*m).lock).swap(0, Ordering::Release) > 1 {
            return wake(m, kind);
        }
        0
    }
}

#[cold]
#[inline(never)]
unsafe extern "C" fn wake(m: *mut Mutex, kind: c_int) -> c_int {
    syscall::futex_wake_lock(m.addr(), kind & SHARED == 0);
    // Opaque, so that the caller can jump here instead of calling.
    core::hint::black_box(0)
}
