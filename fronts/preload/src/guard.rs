//! Guards of C++ function-local statics, our own implementation.
//!
//! The compiler puts a test of byte 0 in front of the call, so a thread that
//! finds it set never comes here and can't join the initialiser's clock. While
//! recording, byte 0 therefore stays clear until every live thread's clock has
//! passed the completion; in a replay it is never set. The calls that a fast path
//! skips make counting them useless as a name: a guard is named by its place in
//! its module, which is the same wherever the module is loaded.
//!
//! ```text
//! byte 0      tested by compiled code
//! bytes 2-3   calls since completion, to look seldom whether everybody passed
//! bytes 4-7   state, see `relive_rt::once`
//! ```

use crate::module;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};
use relive_rt::once::{self, Entered};
use relive_rt::{Mode, mode, thread};
use relive_sys::front;

/// A guard as the Itanium C++ ABI gives it to us: eight bytes, zero at first, of which it defines byte 0 only.
#[derive(Debug)]
#[repr(C, align(8))]
pub(crate) struct Guard {
    open: AtomicU8,
    unused: u8,
    calls: AtomicU16,
    state: AtomicU32,
}

const _: () = assert!(size_of::<Guard>() == 8);

front!(
    /// `__cxa_guard_acquire`
    __cxa_guard_acquire, 1, acquire
);

unsafe extern "C" fn acquire(guard: *const Guard, place: usize) -> c_int {
    // SAFETY: the compiler passes a guard that is never freed while it is in use.
    let guard = unsafe { &*guard };
    if guard.open.load(Ordering::Acquire) != 0 {
        return 0;
    }
    let entered = once::enter(&guard.state, || name(guard), place);
    if entered == Entered::Done {
        guard.found_done();
    }
    c_int::from(entered == Entered::Run)
}

impl Guard {
    /// Lets compiled code skip the call from now on, if nobody has a clock to join any more.
    fn found_done(&self) {
        match mode() {
            Mode::Replay => {}
            Mode::Off => self.open.store(1, Ordering::Release),
            Mode::Record => {
                let calls = self.calls.load(Ordering::Relaxed).wrapping_add(1);
                self.calls.store(calls, Ordering::Relaxed);
                if calls.is_power_of_two() && self.may_open() {
                    self.open.store(1, Ordering::Release);
                }
            }
        }
    }

    fn may_open(&self) -> bool {
        thread::current_if_known().is_some()
            && once::everybody_passed(once::cell(&self.state).clock.load(Ordering::Acquire))
    }
}

front!(
    /// `__cxa_guard_release`
    __cxa_guard_release, 1, release
);

unsafe extern "C" fn release(guard: *const Guard, place: usize) {
    // SAFETY: as in `acquire`.
    unsafe { once::ended(&(*guard).state, true, place) };
}

front!(
    /// `__cxa_guard_abort`
    __cxa_guard_abort, 1, abort
);

unsafe extern "C" fn abort(guard: *const Guard, place: usize) {
    // SAFETY: as in `acquire`.
    unsafe { once::ended(&(*guard).state, false, place) };
}

/// Names a guard by its module's file name and its place in the module.
fn name(guard: &Guard) -> u64 {
    let address = core::ptr::from_ref(guard).addr();
    // A guard in no module was made by a just-in-time compiler: all such share a name.
    let Some(module) = module::find(address) else { return once::place_key(0, 0) };
    let mut hash = 0xCBF2_9CE4_8422_2325u64;
    for &b in module.file {
        hash = (hash ^ b as u64).wrapping_mul(0x0100_0000_01B3);
    }
    once::place_key(hash, (address - module.bias) as u64)
}
