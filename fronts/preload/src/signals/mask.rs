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

fn change(place: usize, effect: impl FnOnce() -> c_int) -> c_int {
    match mode() {
        Mode::Off => effect(),
        Mode::Record => {
            record::alone(Kind::LibcCall);
            let result = effect();
            // What was pending has struck when the call returns.
            record::arrive();
            result
        }
        Mode::Replay => {
            replay::enter(Kind::LibcCall, place);
            let result = effect();
            replay::leave(Kind::LibcCall, &[], false);
            replay::deliver_due();
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
    let effect = || unsafe { real::sigprocmask(how, new, old) };
    // Asking changes nothing.
    if new.is_null() { effect() } else { change(place, effect) }
}

front!(
    /// `pthread_sigmask`
    pthread_sigmask, 3, thread_mask
);

unsafe extern "C" fn thread_mask(how: c_int, new: Object, old: Object, place: usize) -> c_int {
    // SAFETY: forwarded.
    let effect = || unsafe { real::thread_mask(how, new, old) };
    if new.is_null() { effect() } else { change(place, effect) }
}

/// The older functions, of a mask or a number.
macro_rules! older {
    ($($(#[$doc:meta])* $name:ident, $target:ident;)*) => {$(
        front!($(#[$doc])* $name, 1, $target);

        unsafe extern "C" fn $target(argument: c_int, place: usize) -> c_int {
            // SAFETY: forwarded.
            change(place, || unsafe { real::$name(argument) })
        }
    )*};
}

older! {
    /// `sigblock`
    sigblock, block;
    /// `sigsetmask`
    sigsetmask, set_mask;
    /// `sighold`
    sighold, hold;
    /// `sigrelse`
    sigrelse, relse;
}
