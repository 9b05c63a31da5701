//! Callbacks that libc runs in threads of its own making (`SIGEV_THREAD`).
//!
//! Such a thread is announced beforehand: the request is its creation, so it has a
//! name and its clock is tied to whoever asked. The program's function and value
//! are replaced by ours and a [`Request`]. A timer may call again and again; each
//! callback is the creator of the one that follows it.
//!
//! What a callback natively waits for, a timer set or a message sent by any
//! thread, goes through the kernel: it joins the clock of all that may have
//! started it, see `relive_rt::outside`. Where the environment is recorded, requests
//! go another way: those to timers and message queues to `notify`, others to
//! `jobs`, whatever is to happen when they are done.

use crate::asynchronous::{self, Block};
use crate::lookups;
use crate::notify;
use crate::real::{self, Object, Real, errno, set_errno};
use crate::threads;
use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering};
use relive_rt::process::{Child, Creation};
use relive_rt::{Mode, arena, mode, outside, process, runtime};
use relive_sys::trampoline::Frame;
use relive_sys::{detour, syscall, trampoline};

/// glibc's `struct sigevent`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Event {
    pub(crate) value: usize,
    pub(crate) number: c_int,
    pub(crate) notify: c_int,
    pub(crate) function: usize,
    pub(crate) attributes: usize,
    rest: [usize; 4],
}

const _: () = assert!(size_of::<Event>() == 64);

/// `aio_sigevent` of glibc's `struct aiocb`.
const REQUEST_EVENT: usize = 32;
const SIGEV_THREAD: c_int = 2;

/// What the program asked for; it stays for good, because a timer's last callback can't be told.
#[repr(C)]
struct Request {
    /// The event as the program gave it.
    wanted: Event,
    /// The event as libc gets it, where it takes a copy.
    given: Event,
    /// The block of the next callback's thread, or 0.
    next: AtomicUsize,
    /// Where `wanted` stands in the program's memory and has to be again, or null.
    place: *mut Event,
    repeats: bool,
}

/// Whether this `struct sigevent` asks for a thread.
unsafe fn by_thread(event: *const Event) -> bool {
    // SAFETY: null or an event of the program.
    !event.is_null() && unsafe { (*event).notify == SIGEV_THREAD && (*event).function != 0 }
}

/// Slots of [`Frame::scratch`] in a request.
const REQUEST: usize = 0;
const CHILD: usize = 1;

/// What becomes of a request.
enum Asked {
    /// It is none of ours.
    Nothing,
    /// Its thread is announced.
    Announced(*mut Request),
    /// A replay: it failed in the recording with this error.
    Fails(c_int),
}

/// The program asks for a callback with `event`: announces its thread.
unsafe fn announce(frame: &mut Frame, event: *mut Event, repeats: bool) -> Asked {
    frame.scratch[REQUEST] = 0;
    // SAFETY: an event of the program; a zeroed block of the right size.
    unsafe {
        if mode() == Mode::Off || !by_thread(event) {
            return Asked::Nothing;
        }
        outside::may_wake();
        let Some(memory) = arena::allocate(size_of::<Request>()) else { return Asked::Nothing };
        let child = match process::before_create(frame.place) {
            Creation::Unknown => return Asked::Nothing,
            Creation::Fails(error) => return Asked::Fails(error),
            Creation::Child(child) => child,
        };
        let request = memory.cast::<Request>();
        let wanted = *event;
        let given = Event { value: request as usize, function: run_callback as *const () as usize, ..wanted };
        let next = AtomicUsize::new(child as usize);
        request.write(Request { wanted, given, next, place: core::ptr::null_mut(), repeats });
        frame.scratch[REQUEST] = request as usize;
        frame.scratch[CHILD] = child as usize;
        Asked::Announced(request)
    }
}

/// The request was made; `error` is 0 or why it failed.
unsafe fn announced(frame: &Frame, error: c_int) {
    let request = frame.scratch[REQUEST] as *mut Request;
    if request.is_null() {
        return;
    }
    // SAFETY: made in `announce`.
    unsafe {
        if error != 0 {
            (*request).next.store(0, Ordering::Release);
            restore(request);
        }
    }
    // SAFETY: the block that `before_create` made.
    unsafe { process::after_create(frame.scratch[CHILD] as Child, 0, true, error, frame.place) };
}

unsafe fn restore(request: *mut Request) {
    // SAFETY: the program's request stays until its callback runs; libc has copied the event before that.
    unsafe {
        if !(*request).place.is_null() {
            *(*request).place = (*request).wanted;
        }
    }
}

trampoline!(private run_callback, before_callback, threads::after_run);

unsafe extern "C" fn before_callback(frame: *mut Frame) -> usize {
    // SAFETY: the trampoline's frame; its argument is the request.
    unsafe {
        let request = (*frame).args[0] as *mut Request;
        restore(request);
        (*frame).watch(threads::unwound);
        if let Some(child) = take_block(request) {
            process::thread_started(child, real::thread_self());
            threads::forget_specific();
            outside::may_have_waited();
            if (*request).repeats
                && let Creation::Child(following) = process::before_create((*frame).place)
            {
                process::after_create(following, 0, true, 0, (*frame).place);
                (*request).next.store(following as usize, Ordering::Release);
            }
        }
        (*frame).args[0] = (*request).wanted.value;
        (*request).wanted.function
    }
}

/// The block made for this callback; the one before it may still be about to make it.
unsafe fn take_block(request: *mut Request) -> Option<Child> {
    // `mode` speaks of the calling thread, which has no block yet.
    while runtime::process_mode() != Mode::Off {
        // SAFETY: requests stay.
        let child = unsafe { (*request).next.swap(0, Ordering::AcqRel) };
        if child != 0 {
            return Some(child as Child);
        }
        syscall::sched_yield();
    }
    None
}

/// Fronts whose event stands in the argument with this number, and is copied.
macro_rules! copying {
    ($($name:ident = $symbol:literal $(@ $version:literal)?, $index:literal, $repeats:literal, $tells:ident, $own:expr, $any:literal;)*) => {$(
        mod $name {
            use super::*;

            static REAL: Real = Real::new($symbol, copying!(@version $($version)?));
            $crate::real::in_time!(REAL);

            pub(super) unsafe extern "C" fn before(frame: *mut Frame) -> usize {
                // SAFETY: the trampoline's frame; the program keeps the function's contract.
                unsafe {
                    let event = (*frame).args[$index] as *mut Event;
                    let own: Own = $own;
                    if notify::applies() && ($any || by_thread(event)) {
                        (*frame).scratch[REQUEST] = 0;
                        (*frame).result = own(&*frame) as usize;
                        return 0;
                    }
                    match announce(&mut *frame, event, $repeats) {
                        Asked::Nothing => {}
                        Asked::Fails(error) => {
                            (*frame).result = $tells::result(error);
                            return 0;
                        }
                        Asked::Announced(request) => {
                            (*frame).args[$index] = (&raw mut (*request).given).addr();
                        }
                    }
                }
                REAL.address()
            }

            pub(super) unsafe extern "C" fn after(frame: *mut Frame) -> usize {
                // SAFETY: the trampoline's frame.
                unsafe {
                    announced(&*frame, $tells::error((*frame).result as c_int));
                    (*frame).result
                }
            }
        }
        trampoline!($name, $name::before, $name::after);
    )*};
    (@version) => { None };
    (@version $version:literal) => { Some($version) };
}

/// Fronts whose event stands in the request that is the argument with this number, where libc reads it later.
macro_rules! in_place {
    ($($name:ident = $symbol:literal, $index:literal, $own:expr;)*) => {$(
        mod $name {
            use super::*;

            static REAL: Real = Real::new($symbol, None);
            $crate::real::in_time!(REAL);

            pub(super) unsafe extern "C" fn before(frame: *mut Frame) -> usize {
                // SAFETY: the trampoline's frame; the program keeps the function's contract.
                unsafe {
                    if notify::applies() {
                        let own: Own = $own;
                        (*frame).scratch[REQUEST] = 0;
                        (*frame).result = own(&*frame) as usize;
                        return 0;
                    }
                    let block = (*frame).args[$index];
                    let event = if block == 0 { 0 } else { block + REQUEST_EVENT } as *mut Event;
                    match announce(&mut *frame, event, false) {
                        Asked::Nothing => {}
                        Asked::Fails(error) => {
                            (*frame).result = by_errno::result(error);
                            return 0;
                        }
                        Asked::Announced(request) => {
                            (*request).place = event;
                            *event = (*request).given;
                        }
                    }
                }
                REAL.address()
            }

            pub(super) unsafe extern "C" fn after(frame: *mut Frame) -> usize {
                // SAFETY: the trampoline's frame.
                unsafe {
                    announced(&*frame, by_errno::error((*frame).result as c_int));
                    (*frame).result
                }
            }
        }
        trampoline!($name, $name::before, $name::after);
    )*};
}

/// A request that returns -1 and sets `errno`.
mod by_errno {
    use super::{c_int, errno, set_errno};

    pub(super) fn error(result: c_int) -> c_int {
        if result == 0 { 0 } else { errno() }
    }

    pub(super) fn result(error: c_int) -> usize {
        set_errno(error);
        usize::MAX
    }
}

/// A request that returns the error.
mod by_result {
    use super::c_int;

    pub(super) fn error(result: c_int) -> c_int {
        result
    }

    pub(super) fn result(error: c_int) -> usize {
        error as usize
    }
}

copying! {
    timer_create = c"timer_create" @ c"GLIBC_2.34", 1, true, by_errno, own_timer, false;
    mq_notify = c"mq_notify", 1, false, by_errno, own_queue, false;
    getaddrinfo_a = c"getaddrinfo_a", 3, false, by_result, own_lookups, true;
}

in_place! {
    aio_read = c"aio_read", 0, own_read;
    aio_read64 = c"aio_read64", 0, own_read;
    aio_write = c"aio_write", 0, own_write;
    aio_write64 = c"aio_write64", 0, own_write;
    aio_fsync = c"aio_fsync", 1, own_sync;
    aio_fsync64 = c"aio_fsync64", 1, own_sync;
}

/// What is done instead of a request, where the environment is recorded.
type Own = unsafe fn(frame: &Frame) -> c_int;

unsafe fn own_timer(frame: &Frame) -> c_int {
    let [clock, event, timer, ..] = frame.args;
    // SAFETY: the caller's promise.
    unsafe { notify::timer_create(clock, event as *const Event, timer as *mut usize, frame.place) }
}

unsafe fn own_queue(frame: &Frame) -> c_int {
    let [queue, event, ..] = frame.args;
    // SAFETY: the caller's promise.
    unsafe { notify::mq_notify(queue, event as *const Event, frame.place) }
}

unsafe fn own_lookups(frame: &Frame) -> c_int {
    let [mode, list, count, event, ..] = frame.args;
    // SAFETY: the caller's promise.
    unsafe { lookups::look_all_up(mode as c_int, list as lookups::List, count as c_int, event as *const Event) }
}

unsafe fn own_read(frame: &Frame) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { asynchronous::transfer(frame.args[0] as *mut Block, asynchronous::READS) }
}

unsafe fn own_write(frame: &Frame) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { asynchronous::transfer(frame.args[0] as *mut Block, asynchronous::WRITES) }
}

unsafe fn own_sync(frame: &Frame) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { asynchronous::sync(frame.args[0] as c_int, frame.args[1] as *mut Block) }
}

static SET_TIMER: Real = Real::new(c"timer_settime", Some(c"GLIBC_2.34"));
crate::real::in_time!(SET_TIMER);

unsafe extern "C" fn before_settime(_: usize, _: usize, _: usize, _: usize, _: usize, place: usize) -> usize {
    notify::sets_timer(place);
    outside::may_wake();
    SET_TIMER.address()
}

detour!(
    /// `timer_settime`
    timer_settime, before_settime
);

/// Whether this `struct sigevent` asks for a thread, for fronts that can't announce it.
///
/// # Safety
/// Null or an event of the program.
pub(crate) unsafe fn asks_for_thread(event: Object) -> bool {
    // SAFETY: the caller's promise.
    unsafe { by_thread(event.cast()) }
}
