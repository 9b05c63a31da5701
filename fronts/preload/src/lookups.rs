//! Look-ups of names that libc does in threads of its own (`getaddrinfo_a`), where
//! the environment is recorded: each is a job of ours.

use crate::callbacks::Event;
use crate::jobs::{self, Job};
use crate::notify;
use crate::real::real as declare;
use core::ffi::c_int;
use relive_sys::front;

declare! {
    look_up = c"getaddrinfo", fn(name: usize, service: usize, wanted: usize, found: *mut usize) -> c_int;
    real_error = c"gai_error", fn(request: *const Request) -> c_int;
    real_suspend = c"gai_suspend", fn(list: List, count: c_int, timeout: *const [i64; 2]) -> c_int;
    real_cancel = c"gai_cancel", fn(request: *mut Request) -> c_int;
}

/// glibc's `struct gaicb`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Request {
    name: usize,
    service: usize,
    wanted: usize,
    found: usize,
    result: c_int,
    rest: [c_int; 5],
}

pub(crate) type List = *const *mut Request;

const EAI_AGAIN: c_int = -3;
const EAI_SYSTEM: c_int = -11;
const EAI_INPROGRESS: c_int = -100;
const EAI_NOTCANCELED: c_int = -102;
const EAI_ALLDONE: c_int = -103;
const EINVAL: c_int = 22;

unsafe fn perform(block: usize, _how: c_int) -> isize {
    let request = block as *mut Request;
    // SAFETY: the program's request.
    unsafe { look_up((*request).name, (*request).service, (*request).wanted, &raw mut (*request).found) as isize }
}

unsafe fn publish(block: usize, result: isize) {
    // SAFETY: the program's request.
    unsafe { (*(block as *mut Request)).result = result as c_int };
}

unsafe fn is_under_way(request: *const Request) -> bool {
    // SAFETY: the program's request.
    unsafe { (*request).result == EAI_INPROGRESS }
}

/// The requests of a list of the program's.
unsafe fn each(list: List, count: c_int) -> impl Iterator<Item = *mut Request> {
    // SAFETY: the program's list.
    (0..count.max(0) as usize).map(move |index| unsafe { *list.add(index) }).filter(|request| !request.is_null())
}

/// `getaddrinfo_a`.
///
/// # Safety
/// As for this.
pub(crate) unsafe fn look_all_up(mode: c_int, list: List, count: c_int, event: *const Event) -> c_int {
    const WAIT: c_int = 0;
    const NOWAIT: c_int = 1;
    if !matches!(mode, WAIT | NOWAIT) {
        crate::real::set_errno(EINVAL);
        return EAI_SYSTEM;
    }
    // SAFETY: the caller's promise.
    let (result, of_all) = jobs::with(|locked| unsafe {
        let Some(index) = locked.list(event.as_ref().copied().filter(|_| mode == NOWAIT)) else {
            return (EAI_AGAIN, None);
        };
        let mut result = 0;
        for request in each(list, count) {
            (*request).result = EAI_INPROGRESS;
            let (block, list) = (request.addr(), Some(index));
            if !locked.begin(Job { block, perform, how: 0, publish, line: None, list, event: None }) {
                (*request).result = EAI_AGAIN;
                result = EAI_AGAIN;
            }
        }
        let of_all = locked.one_less(index);
        while mode == WAIT && each(list, count).any(|request| is_under_way(request)) {
            locked.wait(None);
        }
        (result, of_all)
    });
    if let Some(event) = of_all {
        jobs::tell(&event);
    }
    result
}

front!(
    /// `gai_error`
    gai_error, 1, error_front
);
front!(
    /// `gai_suspend`
    gai_suspend, 3, suspend_front
);
front!(
    /// `gai_cancel`
    gai_cancel, 1, cancel_front
);

unsafe extern "C" fn error_front(request: *const Request, _place: usize) -> c_int {
    // SAFETY: the program's request.
    unsafe { if notify::applies() { jobs::with(|_| (*request).result) } else { real_error(request) } }
}

unsafe extern "C" fn suspend_front(list: List, count: c_int, timeout: *const [i64; 2], _place: usize) -> c_int {
    // SAFETY: the program's list and time.
    unsafe {
        if !notify::applies() {
            return real_suspend(list, count, timeout);
        }
        let until = jobs::deadline(timeout);
        jobs::with(|locked| {
            let left = || each(list, count).filter(|&request| is_under_way(request)).count();
            let before = left();
            if before == 0 {
                return EAI_ALLDONE;
            }
            while left() == before {
                if !locked.wait(until) {
                    return EAI_AGAIN;
                }
            }
            0
        })
    }
}

unsafe extern "C" fn cancel_front(request: *mut Request, _place: usize) -> c_int {
    // SAFETY: the program's request.
    unsafe {
        if !notify::applies() {
            return real_cancel(request);
        }
        jobs::with(|_| if is_under_way(request) { EAI_NOTCANCELED } else { EAI_ALLDONE })
    }
}
