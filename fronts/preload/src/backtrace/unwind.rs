//! `_Unwind_Backtrace`: the stack as C++ and Rust look at it, a call for each frame.
//!
//! Apart from `backtrace`, which fills a table: here the frames come twice, once for us, who have to know what lies behind the end of
//! a handler before it is shown, and once for the program's function. The library that has the real one may be loaded
//! for another library alone, where no look-up from ours comes to it.

use super::leaves_out;
use super::scan::Scan;
use crate::loader::{LOADER, is_since_found};
use crate::real::{Real, in_time};
use crate::variadic::{Call, entry, steps};
use core::ffi::{CStr, c_char, c_int, c_void};
use relive_sys::lookup::{next_symbol, symbol_in};
use relive_sys::trampoline;
use relive_sys::trampoline::Frame;
use relive_trace::control::flag;

/// What the entry is about.
#[derive(Debug)]
struct Unwinder {
    real: Real,
}

type Running = Call<Unwinder>;

/// The counter of a frame, by its context.
static COUNTER: Real = Real::new(c"_Unwind_GetIP", None);
in_time!(COUNTER);

/// [`Call::state`].
mod state {
    pub(super) const ASKED: usize = 0;
    pub(super) const SEEN: usize = 1;
    pub(super) const SHOWN: usize = 2;
}

/// In [`Call::own`]: the program's function, what it gets besides a frame, and a [`Scan`].
const FUNCTION: usize = 0;
const ARGUMENT: usize = 1;
const SCAN: usize = 2;
const _: () =
    assert!(size_of::<Scan>() <= (8 - SCAN) * size_of::<usize>() && align_of::<Scan>() <= align_of::<usize>());

steps!(unwinding, step);

unsafe extern "C" fn step(call: *mut Running) -> usize {
    // SAFETY: the assembly's frame.
    let call = unsafe { &mut *call };
    match call.state {
        state::ASKED => {
            find(&call.subject.real, call.frame.place);
            if COUNTER.known() == 0 {
                call.state = state::SHOWN;
                return call.subject.real.address();
            }
            [call.own[FUNCTION], call.own[ARGUMENT]] = [call.frame.args[0], call.frame.args[1]];
            // SAFETY: room for one, as asserted.
            unsafe { scan(call).write(Scan::new()) };
            call.frame.args[0] = see as *const () as usize;
            call.frame.args[1] = core::ptr::from_mut(call) as usize;
            call.state = state::SEEN;
        }
        state::SEEN => {
            // SAFETY: written above.
            unsafe { (*scan(call)).again() };
            call.frame.args[0] = show as *const () as usize;
            call.state = state::SHOWN;
        }
        _ => return 0,
    }
    call.subject.real.address()
}

fn scan(call: &mut Running) -> *mut Scan {
    (&raw mut call.own[SCAN]).cast()
}

/// Where the call was made whose frame it is.
unsafe fn counter(context: usize) -> usize {
    // SAFETY: the function has this signature; a context of the unwinder's.
    unsafe {
        let counter: unsafe extern "C" fn(usize) -> usize = core::mem::transmute(COUNTER.known());
        counter(context)
    }
}

trampoline!(private see, before_seen, after);
trampoline!(private show, before_shown, after);

unsafe extern "C" fn before_seen(frame: *mut Frame) -> usize {
    // SAFETY: the trampoline's frame; its arguments are a context and the call that `step` passed.
    unsafe {
        let call = &mut *((*frame).args[1] as *mut Running);
        let (place, caller) = (counter((*frame).args[0]), call.frame.place);
        (*scan(call)).see(place, caller);
        (*frame).result = 0;
    }
    0
}

unsafe extern "C" fn before_shown(frame: *mut Frame) -> usize {
    // SAFETY: as above.
    unsafe {
        let call = &mut *((*frame).args[1] as *mut Running);
        let (place, caller) = (counter((*frame).args[0]), call.frame.place);
        (*frame).result = 0;
        if !(*scan(call)).shows(place, caller, leaves_out(flag::FOUND)) {
            return 0;
        }
        (*frame).args[1] = call.own[ARGUMENT];
        call.own[FUNCTION]
    }
}

unsafe extern "C" fn after(frame: *mut Frame) -> usize {
    // SAFETY: the trampoline's frame.
    unsafe { (*frame).result }
}

/// Looks the functions up, if they were not there when all were: in order with others that hold the loader's lock.
fn find(real: &Real, place: usize) {
    type Open = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;
    const NAME: &CStr = c"libgcc_s.so.1";
    const RTLD_LAZY: c_int = 1;
    const RTLD_NOLOAD: c_int = 4;
    if real.known() != 0 && COUNTER.known() != 0 {
        return;
    }
    let is_ordered = is_since_found();
    if is_ordered {
        LOADER.enter(place);
    }
    real.look_up_if_present();
    COUNTER.look_up_if_present();
    if real.known() == 0 {
        // SAFETY: libc's `dlopen`, with a terminated name. The caller was linked to that library, which stays.
        unsafe {
            let open: Open = core::mem::transmute(next_symbol(c"dlopen", None));
            let library = open(NAME.as_ptr(), RTLD_LAZY | RTLD_NOLOAD);
            for real in [real, &COUNTER] {
                real.is_at(symbol_in(library, real.name()));
            }
        }
    }
    if is_ordered {
        LOADER.leave(place);
    }
}

entry!(_Unwind_Backtrace, unwinding, Unwinder = Unwinder { real: Real::new(c"_Unwind_Backtrace", None) });
