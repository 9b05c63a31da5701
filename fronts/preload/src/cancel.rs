//! Cancellation, deferred only.
//!
//! A cancelled call never returns to us: it unwinds. Every cancellation point that
//! we know counts itself within the thread's event number and watches its frame;
//! if the frame is unwound while recording, the count is written down, and an
//! event orders what follows behind the request. In a replay nobody is asked to
//! cancel: the target does so itself, in the call with the recorded count.
//!
//! ```text
//! recording   asker: Cancel event, real request      target: call … unwound: Cancelled{calls}, ThreadExit event
//! replay      asker: Cancel event                    target: call with that count: ThreadExit event, cancels itself
//! ```
//!
//! The first operation on a stream allocates its buffer, with events and calls of its own. Where it was cancelled behind
//! those, the number of events stands with the count: the replay knows at the operation's begin that it is the one,
//! lets it run into the cancellation, and takes the record where the recording left it.
//!
//! The asynchronous type strikes between two instructions and can't be recorded.

pub(crate) mod points;
mod woken;

use crate::real::{self, errno, set_errno};
use crate::threads::stack::load_unwinder;
use crate::unannounced;
use core::ffi::c_int;
use core::sync::atomic::Ordering;
use relive_order::Kind;
use relive_rt::object::{Internal, internal};
use relive_rt::{Mode, environment, mode, record, replay, report, stranger, thread};
use relive_sys::trampoline::{FORCED, Frame};
use relive_sys::{detour, front, trampoline};
use relive_trace::record::Record;

const EINTR: c_int = 4;

/// Slot of [`Frame::scratch`] that a cancellation point keeps its count in, and above it the thread's events by then.
const COUNT: usize = 3;
const EVENTS_BIT: u32 = 32;

/// Slot of [`Frame::scratch`] for how many signals the thread had handled before the call.
const HANDLED: usize = 2;

/// Where the events inside of an operation stand that was cancelled behind them, and how many there may be.
const INSIDE_BIT: u32 = 24;
const INSIDE_MAX: u64 = 200;

/// What the record of a cancellation says: how many calls the thread had made, and, if the cancelled one has taken
/// events itself, how many.
fn cancelled(calls: u32, inside: u64) -> u32 {
    match inside {
        0 => calls,
        1..=INSIDE_MAX if calls >> INSIDE_BIT == 0 => calls | (inside as u32) << INSIDE_BIT,
        _ => UNKNOWN_CALL,
    }
}

/// Calls that can't be named: a cancellation struck outside all cancellation points that are counted.
const UNKNOWN_CALL: u32 = u32::MAX;

/// The calling thread is in a cancellation point with this frame. In a replay: whether it was cancelled here,
/// in which case [`strike`] follows.
///
/// # Safety
/// `frame` must be a trampoline's frame, left by [`leave`] or by unwinding.
#[inline]
pub(crate) unsafe fn enter(frame: *mut Frame, unwound: unsafe extern "C" fn(*mut Frame)) -> bool {
    let mode = mode();
    // SAFETY: the caller's promise.
    unsafe {
        // Watched in every mode: an unwinder that removes this frame must find it on top of the list.
        (*frame).watch(unwound);
        (*frame).scratch[HANDLED] = NOT_SEEN;
        if mode == Mode::Off {
            return false;
        }
        let Some(thread) = thread::current_if_known() else { return false };
        let count = thread.count_call(false);
        (*frame).scratch[COUNT] = count as usize | (thread.events() as usize) << EVENTS_BIT;
        (*frame).scratch[HANDLED] = thread.signals.delivered as usize;
        if mode == Mode::Replay {
            return was_cancelled(count);
        }
        record::arrive();
        false
    }
}

fn was_cancelled(count: u32) -> bool {
    replay::deliver_due();
    replay::take(|r| r == Record::Cancelled { calls: count }).is_some()
}

/// In a replay, in an operation that was entered and not cancelled at once: whether it is cancelled behind what it does
/// first. Then [`take_back`] follows where it is unwound.
///
/// # Safety
/// As for [`enter`], which comes before.
pub(crate) unsafe fn is_cancelled_inside(frame: *mut Frame) -> bool {
    // SAFETY: the caller's promise.
    let count = unsafe { (*frame).scratch[COUNT] } as u32;
    let here = |events, record| record == Record::Cancelled { calls: cancelled(count, events) };
    replay::calls::comes_behind_preparation(INSIDE_MAX, here)
}

/// Takes the record of a cancellation inside of an operation, which is being unwound.
pub(crate) fn take_back() {
    replay::take(|record| matches!(record, Record::Cancelled { .. }));
}

/// The call of [`enter`] returned.
///
/// # Safety
/// As for [`enter`].
#[inline]
pub(crate) unsafe fn leave(frame: *mut Frame) {
    // SAFETY: the caller's promise.
    unsafe { (*frame).unwatch() };
}

/// What [`HANDLED`] holds where nobody records or replays: no count of signals.
const NOT_SEEN: usize = usize::MAX;

/// The calling thread is about to wait for nothing but a signal: in a replay its handler runs now, if one did before
/// the thread's next event.
pub(crate) fn wait_for_signal() {
    if mode() == Mode::Replay {
        replay::deliver_before_event();
    }
}

/// Whether signals were handled since the frame's [`enter`].
unsafe fn was_interrupted(frame: *mut Frame) -> bool {
    // SAFETY: the caller's promise.
    let before = unsafe { (*frame).scratch[HANDLED] };
    before != NOT_SEEN && thread::current_if_known().is_some_and(|t| t.signals.delivered as usize != before)
}

/// Records how a call ended that a signal interrupted: the kernel won't interrupt it in a replay. `sleeps` says
/// that it returns what is left instead of -1, `woken` that the kernel was not asked.
///
/// # Safety
/// The call of [`enter`] with this frame has returned.
pub(crate) unsafe fn note_interruption(frame: *mut Frame, sleeps: bool, woken: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        // With the environment recorded, the calls themselves say how they ended.
        if mode() != Mode::Record || environment::is_on() && !woken || !was_interrupted(frame) {
            return;
        }
        let result = (*frame).result as c_int;
        if sleeps && result != 0 {
            record::failure(Kind::Deliver, result.min(c_int::from(i16::MAX)));
        } else if result == -1 && errno() == EINTR {
            record::failure(Kind::Deliver, -EINTR);
        }
    }
}

/// What the call with this frame returned in the recording, if a signal interrupted it there.
///
/// # Safety
/// As for [`enter`], which comes before.
pub(crate) unsafe fn interruption(frame: *mut Frame) -> Option<usize> {
    // SAFETY: the caller's promise.
    if mode() != Mode::Replay || unsafe { !was_interrupted(frame) } {
        return None;
    }
    let recorded = replay::failure_of_last(Kind::Deliver)?;
    if recorded == -EINTR {
        set_errno(EINTR);
        return Some(usize::MAX);
    }
    Some(recorded as usize)
}

/// The calling thread cancels itself, in a replay: the function to call next.
pub(crate) fn strike(place: usize) -> usize {
    replay::enter(Kind::ThreadExit, place);
    replay::leave(Kind::ThreadExit, &[internal(Internal::Signals)], false);
    if let Some(thread) = thread::current_if_known() {
        thread.ending = true;
    }
    // SAFETY: a thread may cancel itself; the deferred type only marks it.
    environment::unseen(|| unsafe { real::cancel(real::thread_self()) });
    real::at::testcancel.address()
}

/// The cancellation point with this frame is being unwound. Whether the cancellation has to be recorded: then
/// the caller takes what events the point has, and [`acted`] follows.
///
/// # Safety
/// `frame` must be one that [`enter`] saw.
pub(crate) unsafe fn unwinding(frame: *mut Frame) -> bool {
    if mode() != Mode::Record {
        return false;
    }
    let Some(thread) = thread::current_if_known() else { return false };
    // SAFETY: the caller's promise.
    let forced = unsafe { (*frame).result } & FORCED != 0;
    // Neither an exception nor `pthread_exit` is a cancellation.
    if thread.ending || !forced {
        return false;
    }
    thread.ending = true;
    // SAFETY: the caller's promise.
    let entered = unsafe { (*frame).scratch[COUNT] };
    let inside = (thread.events() as u32).wrapping_sub((entered >> EVENTS_BIT) as u32);
    record::note_of_event(Record::Cancelled { calls: cancelled(entered as u32, inside.into()) });
    true
}

/// The event that orders what a cancelled thread does next behind the request.
pub(crate) fn acted() {
    record::shared(&internal(Internal::Signals).clock, Kind::ThreadExit);
}

/// For points without events of their own.
pub(crate) unsafe extern "C" fn unwound(frame: *mut Frame) {
    // SAFETY: a frame that `enter` saw.
    if unsafe { unwinding(frame) } {
        acted();
    }
}

/// The start routine of the calling thread is being unwound: by `pthread_exit`, by a cancellation in a point
/// that counts itself, or by one that nobody saw.
pub(crate) fn thread_unwound() {
    let Some(thread) = thread::current_if_known() else { return };
    if mode() != Mode::Record || thread.ending || stranger::has_ended() {
        return;
    }
    record::note(Record::Cancelled { calls: UNKNOWN_CALL });
    report::line(format_args!(
        "thread {} was cancelled in a call that is not recorded; a replay will not get past this point",
        thread.index
    ));
}

front!(
    /// `pthread_cancel`
    pthread_cancel, 1, cancel
);

unsafe extern "C" fn cancel(handle: usize, place: usize) -> c_int {
    if mode() != Mode::Off {
        load_unwinder();
    }
    // SAFETY: the program passed a handle.
    unsafe {
        match mode() {
            Mode::Off => real::cancel(handle),
            Mode::Record => {
                if let Some(target) = thread::find(handle) {
                    let target = &(*target).cancellation;
                    target.sent.store(true, Ordering::SeqCst);
                    if target.asynchronous.load(Ordering::SeqCst) {
                        unannounced::refuse("asynchronous cancellation", place);
                    }
                }
                record::shared(&internal(Internal::Signals).clock, Kind::Cancel);
                let result = environment::unseen(|| real::cancel(handle));
                if result != 0 {
                    record::failure(Kind::Cancel, result);
                }
                result
            }
            Mode::Replay => {
                replay::enter(Kind::Cancel, place);
                replay::leave(Kind::Cancel, &[internal(Internal::Signals)], false);
                replay::failure_of_last(Kind::Cancel).unwrap_or(0)
            }
        }
    }
}

unsafe extern "C" fn before_testcancel(frame: *mut Frame) -> usize {
    // SAFETY: the trampoline's frame.
    unsafe {
        if enter(frame, unwound) {
            return strike((*frame).place);
        }
    }
    real::at::testcancel.address()
}

unsafe extern "C" fn after_testcancel(frame: *mut Frame) -> usize {
    // SAFETY: the trampoline's frame.
    unsafe { leave(frame) };
    0
}

trampoline!(
    /// `pthread_testcancel`
    pthread_testcancel, before_testcancel, after_testcancel
);

front!(
    /// `pthread_setcanceltype`
    pthread_setcanceltype, 2, set_type
);

unsafe extern "C" fn set_type(kind: c_int, old: *mut c_int, place: usize) -> c_int {
    const PTHREAD_CANCEL_ASYNCHRONOUS: c_int = 1;
    // To allow it does no harm; where it strikes could not be told.
    if let Some(thread) = thread::current_if_known() {
        let asynchronous = kind == PTHREAD_CANCEL_ASYNCHRONOUS;
        thread.cancellation.asynchronous.store(asynchronous, Ordering::SeqCst);
        if asynchronous && thread.cancellation.sent.load(Ordering::SeqCst) {
            unannounced::refuse("asynchronous cancellation", place);
        }
    }
    // SAFETY: forwarded.
    unsafe { real::set_cancel_type(kind, old) }
}

unsafe extern "C" fn before_exit(_: usize, _: usize, _: usize, _: usize, _: usize, _place: usize) -> usize {
    if let Some(thread) = thread::current_if_known() {
        thread.ending = true;
    }
    real::at::exit_thread.address()
}

detour!(
    /// `pthread_exit`
    pthread_exit, before_exit
);

unsafe extern "C" fn before_c11_exit(_: usize, _: usize, _: usize, _: usize, _: usize, _place: usize) -> usize {
    if let Some(thread) = thread::current_if_known() {
        thread.ending = true;
    }
    real::at::c11_exit_thread.address()
}

detour!(
    /// `thrd_exit`
    thrd_exit, before_c11_exit
);
