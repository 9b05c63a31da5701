//! Calls that make threads which pass no front of ours, and others that can't be
//! recorded: each is named in one line, and the recording ends there.

use crate::callbacks::asks_for_thread;
use crate::real::{Object, Real};
use core::ffi::c_int;
use relive_rt::stranger;
use relive_sys::detour;

/// The calling thread does something that can't be recorded.
pub(crate) fn refuse(what: &str, place: usize) {
    stranger::refuse(what, place);
}

/// `aio_sigevent` of glibc's `struct aiocb`.
const REQUEST_EVENT: usize = 32;

/// Whether any of these requests, or the whole list, asks for a thread.
///
/// # Safety
/// As for `lio_listio`.
pub(crate) unsafe fn list_by_thread(list: usize, count: usize, event: usize) -> bool {
    // SAFETY: an array of `count` requests of the program, some of them null.
    unsafe {
        let requests = (0..count as c_int).map(|i| (list as *const usize).offset(i as isize).read());
        asks_for_thread(event as Object)
            || requests.filter(|&r| r != 0).any(|r| asks_for_thread((r + REQUEST_EVENT) as Object))
    }
}

macro_rules! refused {
    ($($name:ident = $symbol:literal, $what:literal,
       |$a:pat_param, $b:pat_param, $c:pat_param, $d:pat_param| $if:expr;)*) => {
        $(
            mod $name {
                use super::*;

                static REAL: Real = Real::new($symbol, None);
                $crate::real::in_time!(REAL);

                pub(super) unsafe extern "C" fn before(
                    $a: usize, $b: usize, $c: usize, $d: usize, _: usize, place: usize,
                ) -> usize {
                    // SAFETY: the program keeps the function's contract.
                    #[allow(unused_unsafe)]
                    if unsafe { $if } {
                        refuse($what, place);
                    }
                    REAL.address()
                }
            }
            detour!($name, $name::before);
        )*
    };
}

refused! {
    clone = c"clone", "clone", |_, _, _, _| true;
    __clone = c"__clone", "clone", |_, _, _, _| true;
    pthread_mutex_setprioceiling = c"pthread_mutex_setprioceiling", "pthread_mutex_setprioceiling", |_, _, _, _| true;
}
