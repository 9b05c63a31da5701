//! Threads: creation, start, end, join, detach.
//!
//! The new thread starts in a trampoline of ours, which gives it its block and
//! then runs the program's start routine without any Rust frame below it, because
//! cancellation and `pthread_exit` unwind through here.

pub(crate) mod stack;

use crate::first_use::settle_before_threads;
use crate::libc_state::taking_part;
use crate::loader::LOADER;
use crate::real::{self, Object, Real};
use crate::{cancel, signals};
use core::ffi::{c_char, c_int};
use relive_order::Kind;
use relive_rt::environment::heap;
use relive_rt::environment::stacks;
use relive_rt::process::Creation;
use relive_rt::{Mode, environment, mode, process, races, record, replay, thread};
use relive_sys::trampoline::Frame;
use relive_sys::{aside, front, trampoline};
use stack::Choice;

/// Slots of [`Frame::scratch`] in a creation and a join.
pub(crate) const CHILD: usize = 0;
const STATE: usize = 1;
/// Bits of the second: the thread starts detached; the creator is where the loader must not be.
const DETACHED: usize = 1;
const INSIDE: usize = 2;
const EAGAIN: usize = 11;

trampoline!(
    /// `pthread_create`
    aside pthread_create, before_create, after_create
);

pub(crate) unsafe extern "C" fn before_create(frame: *mut Frame) -> usize {
    // SAFETY: the trampoline's frame.
    let frame = unsafe { &mut *frame };
    let attributes = frame.args[1] as Object;
    frame.scratch[STATE] = if is_detached(attributes) { DETACHED } else { 0 };
    let stack = match stack::choose(attributes) {
        Choice::Theirs => None,
        Choice::Ours(stack) => Some(stack),
        Choice::None => {
            (frame.scratch[CHILD], frame.result) = (0, EAGAIN);
            return 0;
        }
    };
    if environment::is_on() && taking_part() != Mode::Off {
        frame.scratch[STATE] |= INSIDE;
        // The image of a new thread's variables is made under a lock that the loader holds while it takes memory.
        LOADER.enter(frame.place);
    }
    let real = prepare(frame, 2, attributes, &real::at::create);
    if let Some(stack) = stack {
        let child = frame.scratch[CHILD] as process::Child;
        if child.is_null() {
            stacks::give_back(stack);
        } else {
            // SAFETY: the block that was just made for the child; null or the program's attributes.
            frame.args[1] = unsafe { stack::give(&mut *child, stack, frame.args[1] as Object) };
            if frame.scratch[STATE] & DETACHED != 0 {
                // SAFETY: as above.
                stacks::starts_detached(unsafe { &mut *child });
            }
        }
    }
    real
}

/// Before a creation whose start routine is argument `start` and the routine's argument the one after it: what to
/// call, or 0 with the result in place.
pub(crate) fn prepare(frame: &mut Frame, start: usize, attributes: Object, real: &Real) -> usize {
    frame.scratch[CHILD] = 0;
    settle_before_threads();
    real::look_up_all();
    match process::before_create(frame.place) {
        Creation::Unknown => {}
        Creation::Fails(error) => {
            frame.result = error as usize;
            return 0;
        }
        Creation::Child(child) => {
            frame.scratch[CHILD] = child as usize;
            // SAFETY: the block that was just made for the child; null or the program's attributes.
            unsafe {
                (*child).start = [frame.args[start], frame.args[start + 1]];
                let held = signals::hold_back(frame, child, attributes);
                if !attributes.is_null() {
                    frame.args[1] = held.addr();
                }
            }
            frame.args[start] = run_thread as *const () as usize;
            frame.args[start + 1] = child as usize;
        }
    }
    real.address()
}

fn is_detached(attributes: Object) -> bool {
    const PTHREAD_CREATE_DETACHED: c_int = 1;
    let mut state = 0;
    // SAFETY: the program passed attributes.
    !attributes.is_null()
        && unsafe { real::attributes_detached(attributes, &raw mut state) } == 0
        && state == PTHREAD_CREATE_DETACHED
}

pub(crate) unsafe extern "C" fn after_create(frame: *mut Frame) -> usize {
    // SAFETY: the trampoline's frame.
    let frame = unsafe { &mut *frame };
    let child = frame.scratch[CHILD] as process::Child;
    if !child.is_null() {
        signals::let_through(frame);
        let error = frame.result as c_int;
        // SAFETY: creation stored the handle there if it succeeded.
        let handle = if error == 0 { unsafe { *(frame.args[0] as *const usize) } } else { 0 };
        let detached = frame.scratch[STATE] & DETACHED != 0;
        // SAFETY: the block that `before_create` made.
        unsafe {
            let stack = if error == 0 { None } else { (*child).stack.take() };
            process::after_create(child, handle, detached, error, frame.place);
            if let Some(stack) = stack {
                stacks::give_back(stack);
            }
        }
    }
    if frame.scratch[STATE] & INSIDE != 0 {
        LOADER.leave(frame.place);
    }
    frame.result
}

trampoline!(private run_thread, before_run, after_run);

/// Bytes that our code used on a new thread's stack, at most: a quarter of the smallest.
const WIPED: usize = 4096;

unsafe extern "C" fn before_run(frame: *mut Frame) -> usize {
    // SAFETY: the trampoline's frame; its argument is the block made in `before_create`, with which the stack aside goes.
    unsafe {
        aside::give((*((*frame).args[0] as process::Child)).aside);
        // Nothing is kept here meanwhile: where the block is differs in a replay.
        let start = aside::run(begin, frame.addr(), 0, 0, 0, 0);
        if aside::has_one() {
            // What libc asked the kernel for before, we answered here.
            aside::wipe::<WIPED>();
        }
        start
    }
}

/// The start of a thread: its start routine.
///
/// # Safety
/// On the new thread, for its first frame.
unsafe extern "C" fn begin(frame: usize, _: usize, _: usize, _: usize, _: usize) -> usize {
    let frame = frame as *mut Frame;
    // SAFETY: the caller's promise; the argument is the thread's block.
    unsafe {
        let child = (*frame).args[0] as process::Child;
        let [start, argument] = (*child).start;
        process::thread_started(child, real::thread_self());
        signals::started((*child).start_mask.take());
        forget_specific();
        (*frame).watch(unwound);
        (*frame).args[0] = argument;
        if mode() == Mode::Replay {
            // A signal may have struck it before its first operation.
            replay::deliver_computing();
        }
        start
    }
}

/// Before the first thread of a fork child, which must not wait for the loader's lock.
pub(crate) fn look_up() {
    real::at::get_specific.look_up();
    real::at::set_specific.look_up();
}

/// In a fork child glibc gives new threads the stacks of its parent's threads, and leaves on them the thread-specific
/// data of those that were running destructors at the fork: whether a new thread inherits it depends on which stack
/// it gets, which no recording holds. So none does.
pub(crate) fn forget_specific() {
    const PTHREAD_KEYS_MAX: u32 = 1024;
    if !process::is_forked() {
        return;
    }
    for key in 0..PTHREAD_KEYS_MAX {
        // SAFETY: a key that nobody made has no value.
        unsafe {
            if !real::get_specific(key).is_null() {
                real::set_specific(key, core::ptr::null_mut());
            }
        }
    }
}

pub(crate) unsafe extern "C" fn after_run(frame: *mut Frame) -> usize {
    if process::thread_finished() {
        crate::last::arrange();
    }
    // SAFETY: the trampoline's frame.
    unsafe {
        (*frame).unwatch();
        (*frame).result
    }
}

pub(crate) unsafe extern "C" fn unwound(_frame: *mut Frame) {
    cancel::thread_unwound();
    if process::thread_finished() {
        crate::last::arrange();
    }
}

/// `real` is the call that was made, `blocking` one that waits until the thread has ended.
pub(crate) unsafe fn before_any_join(frame: *mut Frame, real: &Real, blocking: &Real) -> usize {
    // SAFETY: the trampoline's frame.
    if unsafe { cancel::enter(frame, cancel::unwound) } {
        // SAFETY: as above.
        return cancel::strike(unsafe { (*frame).place });
    }
    // SAFETY: as above.
    let frame = unsafe { &mut *frame };
    heap::set_quiet(true);
    frame.scratch[CHILD] = thread::find(frame.args[0]).map_or(0, |t| t as usize);
    if mode() != Mode::Replay {
        if let Some(thread) = thread::current_if_known() {
            thread.joining = frame.scratch[CHILD] as process::Child;
        }
        return real.address();
    }
    if let Some(error) = replay::failure(Kind::Join) {
        frame.result = error as usize;
        frame.scratch[CHILD] = 0;
        return 0;
    }
    // Whatever the call was, it succeeded in the recording: so here it waits until it can.
    replay::set_blocked(true, frame.place);
    blocking.address()
}

pub(crate) unsafe extern "C" fn after_any_join(frame: *mut Frame) -> usize {
    // SAFETY: the trampoline's frame.
    let frame = unsafe {
        cancel::leave(frame);
        &mut *frame
    };
    let child = frame.scratch[CHILD] as process::Child;
    let result = frame.result as c_int;
    if let Some(thread) = thread::current_if_known() {
        thread.joining = core::ptr::null_mut();
    }
    heap::set_quiet(false);
    match mode() {
        Mode::Off => {}
        Mode::Record if result != 0 => record::failure(Kind::Join, result),
        Mode::Replay if child.is_null() => {}
        Mode::Record | Mode::Replay => {
            if mode() == Mode::Replay {
                replay::set_blocked(false, frame.place);
            }
            if !child.is_null() && result == 0 {
                // SAFETY: the join succeeded, so the thread has ended.
                unsafe { process::joined(child, frame.place) };
            }
        }
    }
    frame.result
}

unsafe extern "C" fn before_join(frame: *mut Frame) -> usize {
    // SAFETY: forwarded.
    unsafe { before_any_join(frame, &real::at::join, &real::at::join) }
}

unsafe extern "C" fn before_tryjoin(frame: *mut Frame) -> usize {
    // SAFETY: forwarded.
    unsafe { before_any_join(frame, &real::at::tryjoin, &real::at::join) }
}

unsafe extern "C" fn before_timedjoin(frame: *mut Frame) -> usize {
    // SAFETY: forwarded.
    unsafe { before_any_join(frame, &real::at::timedjoin, &real::at::join) }
}

unsafe extern "C" fn before_clockjoin(frame: *mut Frame) -> usize {
    // SAFETY: forwarded.
    unsafe { before_any_join(frame, &real::at::clockjoin, &real::at::join) }
}

trampoline!(
    /// `pthread_join`
    aside pthread_join, before_join, after_any_join
);
trampoline!(
    /// `pthread_tryjoin_np`
    aside pthread_tryjoin_np, before_tryjoin, after_any_join
);
trampoline!(
    /// `pthread_timedjoin_np`
    aside pthread_timedjoin_np, before_timedjoin, after_any_join
);
trampoline!(
    /// `pthread_clockjoin_np`
    aside pthread_clockjoin_np, before_clockjoin, after_any_join
);

front!(
    /// `pthread_setname_np`
    pthread_setname_np, 2, set_name
);

unsafe extern "C" fn set_name(handle: usize, name: *const c_char, _place: usize) -> c_int {
    // SAFETY: forwarded; a thread that the program names lives, and so does its block. What libc took it has read.
    unsafe {
        let result = real::set_name(handle, name);
        if let (0, Some(block)) = (result, thread::find(handle)) {
            races::named((*block).index, name.addr());
        }
        result
    }
}

front!(
    /// `pthread_detach`
    pthread_detach, 1, detach
);

pub(crate) unsafe extern "C" fn detach(handle: usize, _place: usize) -> c_int {
    let known = thread::find(handle);
    // SAFETY: the program passed a handle.
    let real = || unsafe { real::detach(handle) };
    // SAFETY: a block stays until its thread is joined or detached.
    let result = known.and_then(|block| unsafe { stacks::detach(block, handle, real) }).unwrap_or_else(real);
    if let (0, Some(block)) = (result, known) {
        // SAFETY: as above.
        unsafe { thread::detach(block) };
    }
    result
}
