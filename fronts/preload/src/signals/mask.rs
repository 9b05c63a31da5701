//! Changes of the signal mask: an event on no object.
//!
//! A signal is recorded by the number of the event that it came before. With the
//! changes of the mask among the events, a replay never finds it blocked where the
//! recording ran its handler.

use crate::real::{self, Object};
use core::ffi::c_int;
use relive_order::Kind;
use relive_rt::{Mode, mode, record, replay};
use relive_sys::front;

fn change(new: Object, place: usize, effect: impl FnOnce() -> c_int) -> c_int {
    match mode() {
        // Asking changes nothing.
        _ if new.is_null() => effect(),
        Mode::Off => effect(),
        Mode::Record => {
            record::alone(Kind::LibcCall);
            effect()
        }
        Mode::Replay => {
            replay::enter(Kind::LibcCall, place);
            let result = effect();
            replay::leave(Kind::LibcCall, &[], false);
            result
        }
    }
}

front!(
    /// `sigprocmask`
    sigprocmask, 3, process_mask
);

unsafe extern "C" fn process_mask(how: c_int, new: Object, old: Object, place: usize) -> c_int {
    // SAFETY: forwarded.
    change(new, place, || unsafe { real::sigprocmask(how, new, old) })
}

front!(
    /// `pthread_sigmask`
    pthread_sigmask, 3, thread_mask
);

unsafe extern "C" fn thread_mask(how: c_int, new: Object, old: Object, place: usize) -> c_int {
    // SAFETY: forwarded.
    change(new, place, || unsafe { real::thread_mask(how, new, old) })
}
