//! Start and end of the process: our constructor, the program's `main`, `exit`.
//!
//! `main` is run through a trampoline so that returning from it is a call of our
//! `exit`: libc calls its own directly.

use crate::handlers;
use crate::real;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};
use relive_rt::{environment, link, process, translation};
use relive_sys::trampoline::Frame;
use relive_sys::{aside, dispatch, front, own_data, start, trampoline};

type Strings = *const *const c_char;

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: unsafe extern "C" fn(c_int, Strings, Strings) = constructor;

#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = destructor;

/// Bytes of the first stack that the constructor uses, at most.
const WIPED: usize = 64 << 10;

unsafe extern "C" fn constructor(_count: c_int, _arguments: Strings, strings: Strings) {
    // SAFETY: forwarded. The first stack is larger; all below this frame is free.
    unsafe {
        start_up(strings);
        if environment::is_on() {
            // What was done so far was done on the program's stack, and differently in a replay.
            aside::wipe::<WIPED>();
        }
    }
}

/// Its frame is wiped, too.
#[inline(never)]
unsafe fn start_up(strings: Strings) {
    // SAFETY: the auxiliary vector stands behind the environment that was laid on the stack.
    let (auxiliary, handover) = unsafe {
        let auxiliary = auxiliary_vector(strings);
        (auxiliary, start::handover(auxiliary))
    };
    if handover.is_some() {
        // The starter's part is over: its handler would see our calls, too.
        dispatch::disarm();
    }
    // SAFETY: the dynamic linker passes the process's environment, whose strings stay; so do the starter's.
    let found = unsafe {
        let session = handover.map_or(strings, |handover| (&raw const (*handover).session).cast());
        crate::processes::remember(session, handover.is_some());
        link::read(session)
    };
    if let Some(handover) = handover {
        // SAFETY: the environment's array, which nobody but us reads now; the starter's strings.
        unsafe { hide(strings, (*handover).session) };
        environment::on_bare_exec(crate::processes::bare_exec);
    }
    // SAFETY: a constructor is called when the library is ready, and ours when there is one thread.
    unsafe { own_data::hide() };
    crate::real::at::mutex_lock.look_up();
    crate::real::at::mutex_unlock.look_up();
    crate::jumps::look_up();
    crate::threads::look_up();
    process::start(found);
    let translate = translation::is_wanted(&found);
    // SAFETY: the process's own.
    unsafe { environment::begin(auxiliary) };
    if environment::is_on() {
        crate::heap::take_over();
        crate::rseq::give_up();
    }
    crate::processes::arrange();
    if translate {
        // SAFETY: start-up: one thread.
        unsafe { translation::begin(environment::is_on()) };
    }
}

/// Takes our library out of the environment that the program sees: what it does must not depend on our paths.
unsafe fn hide(environment: Strings, session: [*const c_char; 4]) {
    // SAFETY: the caller's promise; all strings are terminated.
    unsafe {
        let mut at = environment.cast_mut();
        while !(*at).is_null() && !session.contains(&*at) {
            at = at.add(1);
        }
        if (*at).is_null() {
            return;
        }
        let text = (*at).cast_mut().cast::<u8>();
        let bytes = CStr::from_ptr(*at).to_bytes_with_nul();
        let (name, end) = (bytes.iter().position(|&b| b == b'='), bytes.iter().position(|&b| b == b':'));
        if let (Some(name), Some(end)) = (name, end) {
            // What the user preloads besides stays.
            core::ptr::copy(text.add(end + 1), text.add(name + 1), bytes.len() - end - 1);
            return;
        }
        while !(*at).is_null() {
            *at = *at.add(1);
            at = at.add(1);
        }
    }
}

/// What stands behind the last entry of an environment.
unsafe fn auxiliary_vector(environment: Strings) -> *const [usize; 2] {
    let mut at = environment;
    // SAFETY: the caller's promise: a null-terminated array.
    unsafe {
        while !at.is_null() && !(*at).is_null() {
            at = at.add(1);
        }
        if at.is_null() { core::ptr::null() } else { at.add(1).cast() }
    }
}

extern "C" fn destructor() {
    process::ended();
}

static MAIN: AtomicUsize = AtomicUsize::new(0);

/// # Safety
/// As for glibc's start-up code, which alone calls this.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __libc_start_main(
    main: usize,
    count: c_int,
    arguments: *mut *mut c_char,
    init: usize,
    fini: usize,
    rtld_fini: usize,
    stack_end: *mut c_void,
) -> c_int {
    MAIN.store(main, Ordering::Relaxed);
    // SAFETY: forwarded; our main runs the program's.
    unsafe {
        let loaders = handlers::in_place_of(rtld_fini);
        real::libc_start_main(run_main as *const () as usize, count, arguments, init, fini, loaders, stack_end)
    }
}

trampoline!(private run_main, before_main, after_main);

unsafe extern "C" fn before_main(frame: *mut Frame) -> usize {
    // SAFETY: the trampoline's frame.
    unsafe { (*frame).watch(main_unwound) };
    MAIN.load(Ordering::Relaxed)
}

/// `pthread_exit` in the main thread: the process goes on until its last thread ends.
unsafe extern "C" fn main_unwound(_frame: *mut Frame) {
    if process::thread_finished() {
        crate::last::arrange();
    }
}

unsafe extern "C" fn after_main(frame: *mut Frame) -> usize {
    // SAFETY: the trampoline's frame.
    let code = unsafe {
        (*frame).unwatch();
        (*frame).result
    };
    handlers::exits(code as c_int, 0);
    code
}

front!(
    /// `_exit`
    _exit, 1, exit_now_front
);
front!(
    /// `_Exit`
    _Exit, 1, exit_now_front
);

unsafe extern "C" fn exit_now_front(code: c_int, place: usize) {
    process::exiting(code as u32, place);
    process::ended();
    // SAFETY: forwarded; does not return.
    unsafe { real::exit_now(code) }
}
