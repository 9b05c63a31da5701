//! `pthread_once` and C11's `call_once`; `std::call_once` comes through here too.
//!
//! Our own implementation on the program's word: which attempt a thread makes
//! must be known before the routine runs, and libc doesn't tell. The routine runs
//! from a trampoline, because an exception or a cancellation may leave it.

use crate::{module, real};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use relive_rt::once::{self, Entered};
use relive_rt::thread;
use relive_sys::trampoline;
use relive_sys::trampoline::Frame;

/// Slot of [`Frame::scratch`]: whether this call runs the routine.
const RUNS: usize = 0;

unsafe fn control<'a>(frame: *mut Frame) -> &'a AtomicU32 {
    // SAFETY: the first argument is the program's `pthread_once_t` or `once_flag`, one aligned word.
    unsafe { &*((*frame).args[0] as *const AtomicU32) }
}

/// Whether a call comes from the unwinder, which prepares itself once. It runs between an exception or a
/// cancellation and our seeing of it, at a moment that no count could name; what it prepares is the same whoever
/// does.
fn is_unwinder(place: usize, control: &AtomicU32) -> bool {
    static START: AtomicUsize = AtomicUsize::new(0);
    static END: AtomicUsize = AtomicUsize::new(0);
    let (start, end) = (START.load(Ordering::Relaxed), END.load(Ordering::Acquire));
    if (start..end).contains(&place) {
        return true;
    }
    // The first of its calls, whose object can't be done.
    if once::is_done(control) {
        return false;
    }
    let Some(found) = module::find(place) else { return false };
    if !found.file.starts_with(b"libgcc_s.") {
        return false;
    }
    START.store(found.start, Ordering::Relaxed);
    END.store(found.end, Ordering::Release);
    true
}

unsafe extern "C" fn before(frame: *mut Frame) -> usize {
    // SAFETY: the trampoline's frame and the program's object.
    unsafe {
        (*frame).scratch[RUNS] = 0;
        if is_unwinder((*frame).place, control(frame)) {
            return real::at::once.address();
        }
    }
    // Every call is counted, also one that finds the object done: libc has no fast path that could skip it.
    let number = thread::current_if_known().map_or(0, |t| t.count_call(true));
    // SAFETY: the trampoline's frame and the program's object.
    unsafe {
        let entered = once::enter(control(frame), || number as u64, (*frame).place);
        (*frame).scratch[RUNS] = usize::from(entered == Entered::Run);
        (*frame).result = 0;
        if entered == Entered::Done {
            return 0;
        }
        (*frame).watch(unwound);
        (*frame).args[1]
    }
}

unsafe extern "C" fn after(frame: *mut Frame) -> usize {
    // SAFETY: the trampoline's frame and the program's object.
    unsafe {
        if (*frame).scratch[RUNS] != 0 {
            (*frame).unwatch();
            once::ended(control(frame), true, (*frame).place);
        }
    }
    0
}

unsafe extern "C" fn unwound(frame: *mut Frame) {
    // SAFETY: the trampoline's frame and the program's object.
    unsafe { once::ended(control(frame), false, (*frame).place) };
}

trampoline!(
    /// `pthread_once`
    pthread_once, before, after
);
trampoline!(
    /// `__pthread_once`
    __pthread_once, before, after
);
trampoline!(
    /// `call_once` (C11)
    call_once, before, after
);
