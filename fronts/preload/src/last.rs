//! Makes the calling thread the last of its process to end, in a replay.
//!
//! When the last thread ends, libc calls `exit` in it. There is no hook that late;
//! the nearest is the last round of the destructors of thread-specific data, so a
//! key of ours re-arms itself until then and waits there for the others.

use crate::real::real;
use core::ffi::{c_int, c_uint};
use core::sync::atomic::{AtomicU32, Ordering};
use relive_rt::process;

mod call {
    use super::{c_int, c_uint, real};

    real! {
        key_create = c"pthread_key_create", fn(key: *mut c_uint, destructor: usize) -> c_int;
        set = c"pthread_setspecific", fn(key: c_uint, value: usize) -> c_int;
    }
}

/// `PTHREAD_DESTRUCTOR_ITERATIONS`.
const ROUNDS: usize = 4;

static KEY: AtomicU32 = AtomicU32::new(0);

/// Arranges for it. Once a process: a process has one last thread.
pub(crate) fn arrange() {
    let mut key = 0;
    // SAFETY: a place for the key; the destructor has the right signature.
    unsafe {
        if call::key_create(&raw mut key, destructor as *const () as usize) == 0 {
            KEY.store(key, Ordering::Relaxed);
            call::set(key, 1);
        }
    }
}

unsafe extern "C" fn destructor(round: usize) {
    if round < ROUNDS {
        // SAFETY: our key.
        unsafe { call::set(KEY.load(Ordering::Relaxed), round + 1) };
    } else {
        process::wait_until_alone();
    }
}
