//! Handlers at exit: which of them run, and when, while other threads register more.
//!
//! `exit` takes the handlers off libc's list one by one, from the newest on, and looks again after each. What another
//! thread registers meanwhile runs too if it comes in time. libc's lock around the list can't be seen, so there
//! is one of ours: a registration has it around itself, and a thread in `exit` has it all the time but while a handler
//! runs. So it is seen whether a registration came before a handler was chosen or behind it.
//!
//! ```text
//! exit ─▶ enter ─▶ libc chooses ─▶ leave ─▶ the program's handler ─▶ enter ─▶ libc chooses ─▶ …
//! ```
//!
//! For that the program's handler is replaced by ours and a [`Handler`]. The loader's own, which runs the destructors of
//! libraries, is the last one: behind it nothing is seen any more. Those of `quick_exit` get no argument by which ours
//! could tell them apart, so they are not replaced; only their registrations come in order.

use crate::libc_state::{OwnLock, among_others};
use crate::real::{self, real};
use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use relive_order::Kind;
use relive_rt::environment::{give_to, take_from};
use relive_rt::object::{self, Cell, Internal, internal};
use relive_rt::runtime::has_flag;
use relive_rt::{Mode, arena, process, record, replay, thread};
use relive_sys::trampoline::Frame;
use relive_sys::{front, trampoline};
use relive_trace::control::flag;

mod call {
    use super::{c_int, real};

    real! {
        register = c"__cxa_atexit", fn(function: usize, argument: usize, module: usize) -> c_int;
        register_with_status = c"on_exit", fn(function: usize, argument: usize) -> c_int;
        register_quick = c"__cxa_at_quick_exit", fn(function: usize, module: usize) -> c_int;
    }
}

/// The list's lock, which the thread that has it may take again: a signal's handler may call `exit`, too.
static LOCK: OwnLock = OwnLock::new();
/// The thread in `exit` that has it, or 0.
static HOLDER: AtomicU32 = AtomicU32::new(0);

fn own_id() -> u32 {
    thread::current_if_known().map_or(0, |t| t.tid)
}

fn holds() -> bool {
    // Only the holder itself can find its own id here; a fork child has another.
    HOLDER.load(Ordering::Relaxed) == own_id()
}

/// What the calling thread is doing as far as `exit` is concerned.
fn in_exit() -> Mode {
    match among_others() {
        Mode::Replay if !has_flag(flag::HANDLERS) => Mode::Off,
        mode => mode,
    }
}

/// Where the program called `exit`, for reports: what follows is called from libc.
static PLACE: AtomicUsize = AtomicUsize::new(0);

/// `exit` chooses the next handler.
fn enter() {
    let place = PLACE.load(Ordering::Relaxed);
    match in_exit() {
        Mode::Off => return,
        _ if holds() => return,
        Mode::Record => {
            LOCK.acquire();
            // No handler of a signal's runs here: it may call `exit`.
            record::shared_quietly(&internal(Internal::AtExit).clock, Kind::LibcEnter);
        }
        Mode::Replay => {
            replay::enter(Kind::LibcEnter, place);
            LOCK.acquire();
            replay::leave(Kind::LibcEnter, &[internal(Internal::AtExit)], false);
        }
    }
    HOLDER.store(own_id(), Ordering::Relaxed);
}

/// It has done so. Whether it was seen.
fn leave() -> bool {
    let place = PLACE.load(Ordering::Relaxed);
    let mode = in_exit();
    if mode == Mode::Off || !holds() {
        return false;
    }
    match mode {
        Mode::Off => {}
        Mode::Record => record::shared(&internal(Internal::AtExit).clock, Kind::LibcLeave),
        Mode::Replay => {
            replay::enter(Kind::LibcLeave, place);
            replay::leave(Kind::LibcLeave, &[internal(Internal::AtExit)], false);
        }
    }
    HOLDER.store(0, Ordering::Relaxed);
    LOCK.release();
    true
}

/// One event, and the registration with the lock around both. It may take events of its own, for libc's memory: whoever
/// comes next comes behind those.
fn registration(place: usize, effect: impl FnOnce() -> c_int) -> c_int {
    let held = holds();
    let lock = || {
        if !held {
            LOCK.acquire();
        }
    };
    let cell = internal(Internal::AtExit);
    match among_others() {
        Mode::Off => return effect(),
        Mode::Record => {
            lock();
            record::shared_quietly(&cell.clock, Kind::LibcCall);
        }
        Mode::Replay => {
            replay::enter(Kind::LibcCall, place);
            lock();
            replay::leave(Kind::LibcCall, &[cell], false);
        }
    }
    let result = effect();
    if relive_rt::mode() == Mode::Record {
        record::raise(&cell.clock);
    }
    if !held {
        LOCK.release();
    }
    result
}

/// What the program registered. It stays for good, as libc's entries do.
#[repr(C)]
struct Handler {
    function: usize,
    argument: usize,
    /// Whether another thread may run it, which then sees what was done before it was registered.
    is_given: bool,
}

impl Handler {
    /// What is handed from who registers it to who runs it. Addresses of ours differ from replay to replay.
    fn cell(&self) -> &'static Cell {
        object::cell(self.function.wrapping_add(self.argument.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
    }
}

/// Registers one by `register`, to which is passed what to register instead.
fn registered(
    function: usize,
    argument: usize,
    ours: usize,
    place: usize,
    register: impl Fn(usize, usize) -> c_int,
) -> c_int {
    let memory =
        if crate::libc_state::taking_part() == Mode::Off { None } else { arena::allocate(size_of::<Handler>()) };
    let Some(memory) = memory else {
        return registration(place, || register(function, argument));
    };
    let handler = memory.cast::<Handler>();
    let is_given = in_exit() != Mode::Off;
    // SAFETY: a block of the right size, aligned, of nobody else.
    let known = unsafe {
        handler.write(Handler { function, argument, is_given });
        &*handler
    };
    if is_given {
        give_to(known.cell());
    }
    registration(place, || register(ours, handler as usize))
}

front!(
    /// `__cxa_atexit`, which is `atexit`, too
    __cxa_atexit, 3, register
);
front!(
    /// `on_exit`
    on_exit, 2, register_with_status
);
front!(
    /// `__cxa_at_quick_exit`, which is `at_quick_exit`, too
    __cxa_at_quick_exit, 2, register_quick
);

unsafe extern "C" fn register(function: usize, argument: usize, module: usize, place: usize) -> c_int {
    // SAFETY: forwarded; ours has the signature of the program's.
    let register = |function, argument| unsafe { call::register(function, argument, module) };
    registered(function, argument, run as *const () as usize, place, register)
}

unsafe extern "C" fn register_with_status(function: usize, argument: usize, place: usize) -> c_int {
    // SAFETY: as above.
    let register = |function, argument| unsafe { call::register_with_status(function, argument) };
    registered(function, argument, run_with_status as *const () as usize, place, register)
}

unsafe extern "C" fn register_quick(function: usize, module: usize, place: usize) -> c_int {
    // SAFETY: forwarded.
    registration(place, || unsafe { call::register_quick(function, module) })
}

/// Slot of [`Frame::scratch`]: whether `exit` was seen to choose this handler.
const CHOSEN: usize = 0;

trampoline!(private run, before::<0>, after);
trampoline!(private run_with_status, before::<1>, after);

/// The handler is the argument with this number.
unsafe extern "C" fn before<const INDEX: usize>(frame: *mut Frame) -> usize {
    // SAFETY: the trampoline's frame; ours was registered with a handler, which stays.
    unsafe {
        let handler = &*((*frame).args[INDEX] as *const Handler);
        (*frame).scratch[CHOSEN] = usize::from(leave());
        if handler.is_given && in_exit() != Mode::Off {
            take_from(handler.cell());
        }
        (*frame).args[INDEX] = handler.argument;
        handler.function
    }
}

unsafe extern "C" fn after(frame: *mut Frame) -> usize {
    // SAFETY: the trampoline's frame.
    unsafe {
        if (*frame).scratch[CHOSEN] != 0 {
            enter();
        }
        (*frame).result
    }
}

front!(
    /// `exit`
    here exit, 1, exit_front
);

unsafe extern "C" fn exit_front(code: c_int, place: usize) {
    exits(code, place);
    // SAFETY: forwarded; does not return.
    unsafe { real::exit(code) }
}

/// `exit` is called at this place; or `main` has returned, and libc is about to call its own.
pub(crate) fn exits(code: c_int, place: usize) {
    process::exiting(code as u32, place);
    PLACE.store(place, Ordering::Relaxed);
    enter();
}

static LOADERS: AtomicUsize = AtomicUsize::new(0);

/// What to register instead of the loader's handler.
pub(crate) fn in_place_of(loaders: usize) -> usize {
    LOADERS.store(loaders, Ordering::Relaxed);
    if loaders == 0 { 0 } else { run_last as *const () as usize }
}

trampoline!(private run_last, before_last, after_last);

unsafe extern "C" fn before_last(_frame: *mut Frame) -> usize {
    leave();
    LOADERS.load(Ordering::Relaxed)
}

unsafe extern "C" fn after_last(frame: *mut Frame) -> usize {
    // SAFETY: the trampoline's frame.
    unsafe { (*frame).result }
}
