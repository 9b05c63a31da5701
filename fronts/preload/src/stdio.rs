//! stdio streams: each operation is a pair of events on its stream, around the
//! real operation and inside the stream's own lock, which the program can take
//! too. So an operation may block, or run a callback of the program that
//! synchronises, and others go on meanwhile.
//!
//! ```text
//! recording: flockfile ─▶ StreamLock ─▶ operation ─▶ StreamUnlock ─▶ funlockfile
//! replaying: StreamLock (flockfile) ─▶ operation ─▶ StreamUnlock (funlockfile)
//! ```
//!
//! A process that never had a second thread has nothing to order and takes no
//! events. (A callback of a stream that makes the first one is the one case that
//! this gets wrong: its operation began without an event.)
//!
//! An operation may be left by cancellation or by an exception from a callback;
//! the trampoline then ends the pair.

mod life;
pub(crate) mod list;
mod memory;
mod message;
mod real;
mod stream;
mod symbols;
mod waiting;

use crate::cancel;
use crate::libc_state::{among_others, taking_part};
use crate::real::Real;
use crate::variadic::{Call, steps};
use core::sync::atomic::Ordering;
use list::Filter;
use relive_order::Kind;
use relive_rt::environment::carried;
use relive_rt::object::{Internal, internal};
use relive_rt::{Mode, outside, replay, thread};
use relive_sys::trampoline::{FORCED, Frame};
use stream::File;

/// How an operation deals with streams.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Works on one stream.
    On(Which),
    /// Works on one stream that the program holds or owns.
    Bare(Which),
    /// Makes a stream, by the name of a file or not.
    Opens { by_name: bool },
    /// Ends the stream that is this argument.
    Closes(usize),
    /// Ends the stream that is this argument, and makes another in its place.
    Reopens(usize),
    /// `fflush`: one stream or all.
    Flushes,
    /// Goes through all streams that are written to; then the real function, if `also_real`.
    All { filter: Filter, also_real: bool },
    /// Writes a message to `stderr` and ends the process with the first argument.
    Dies,
    /// `error`: `stdout` is flushed, a message written to `stderr`; ends the process if the first argument says so.
    Reports,
}

/// The stream of an operation.
#[derive(Clone, Copy, Debug)]
enum Which {
    Argument(usize),
    Input,
    Output,
    Error,
}

/// What an entry is about.
#[derive(Debug)]
struct Operation {
    real: Real,
    shape: Shape,
    /// Named arguments of a variadic function.
    fixed: u32,
}

type Operating = Call<Operation>;

/// Slots of [`Call::own`].
const STREAM: usize = 0;
const NEXT: usize = 1;
const WORST: usize = 2;
const LIST: usize = 3;
const CANCELLED: usize = 4;
/// What is there: the recording has the cancellation at the operation's begin, or behind what it does first.
const AT_ONCE: usize = 1;
const INSIDE: usize = 2;
const AT: usize = 5;
const REST: usize = 6;
const WAITS: usize = 7;

/// States of a [`Call`].
const START: usize = 0;
const RUNNING: usize = 1;
const FINISHED: usize = 2;
const FLUSHED: usize = 3;

unsafe extern "C" {
    static stdin: File;
    static stdout: File;
    static stderr: File;
}

steps!(plain, step);
steps!(variadic counted, step_variadic);

unsafe extern "C" fn step_variadic(call: *mut Operating) -> usize {
    // SAFETY: the assembly's frame, through its variadic entry.
    unsafe {
        if (*call).state == START {
            let fixed = (*call).subject.fixed;
            (*call).frame.args[fixed as usize] = Call::list(call, fixed);
        }
        step(call)
    }
}

unsafe extern "C" fn step(call: *mut Operating) -> usize {
    // SAFETY: the assembly's frame.
    let call = unsafe { &mut *call };
    match call.subject.shape {
        Shape::On(which) => on(call, which),
        Shape::Bare(which) => bare(call, which),
        Shape::Opens { by_name } => life::opens(call, by_name),
        Shape::Closes(argument) => life::closes(call, argument),
        Shape::Reopens(argument) => life::reopens(call, argument),
        Shape::Flushes if call.state == START && call.frame.args[0] != 0 => on(call, Which::Argument(0)),
        Shape::Flushes if call.state == RUNNING => on(call, Which::Argument(0)),
        Shape::Flushes => all(call, Filter::Pending, false),
        Shape::All { filter, also_real } => all(call, filter, also_real),
        Shape::Dies => message::dies(call),
        Shape::Reports => message::reports(call),
    }
}

#[inline(always)]
fn on(call: &mut Operating, which: Which) -> usize {
    if call.state == START {
        call.state = RUNNING;
        begin(call, stream_of(call, which));
        memory::begins(call);
        return call.subject.real.address();
    }
    memory::ends(call);
    end(call);
    0
}

fn stream_of(call: &Operating, which: Which) -> File {
    // SAFETY: libc's variables; reading them races with the program's own changes as the real operation does.
    unsafe {
        match which {
            Which::Argument(index) => call.frame.args[index] as File,
            Which::Input => stdin,
            Which::Output => stdout,
            Which::Error => stderr,
        }
    }
}

/// Starts the pair of events on a stream, if its operations are ordered.
#[inline(always)]
fn begin(call: &mut Operating, stream: File) {
    call.own[STREAM] = 0;
    if among_others() != Mode::Off && stream::is_ordered(stream) && !stream::is_added() {
        stream::lock(stream, call.frame.place);
        stream::mark();
        call.own[STREAM] = stream as usize;
    }
    begin_alone(call, stream);
}

/// What every operation begins with, ordered or not.
#[inline(always)]
fn begin_alone(call: &mut Operating, stream: File) {
    call.own[WAITS] = 0;
    if taking_part() != Mode::Off && waiting::can_wait(stream) {
        outside::may_wake();
        let carries = carried::is_ordered();
        if carries && waiting::may_write(stream) {
            // Whether the buffer is emptied is not known yet.
            carried::give(call.frame.place);
        }
        [call.own[AT], call.own[REST]] = waiting::Before::see(stream).words();
        call.own[WAITS] = stream as usize | usize::from(carries);
    }
    watch(call, stream);
}

/// From here on the call is a cancellation point. One that was cancelled in the recording is, in a replay, asked
/// to cancel before it begins: it leaves what the recorded one left in the stream's buffer.
#[inline(always)]
fn watch(call: &mut Operating, stream: File) {
    // SAFETY: the trampoline's frame; left in `end` or by `unwound`.
    let at_once = unsafe { cancel::enter(&raw mut call.frame, unwound) };
    // What it does first is to allocate the buffer.
    let may = !at_once && relive_rt::mode() == Mode::Replay && waiting::has_no_buffer(stream);
    // SAFETY: it was entered.
    let inside = may && unsafe { cancel::is_cancelled_inside(&raw mut call.frame) };
    call.own[CANCELLED] = usize::from(at_once) * AT_ONCE + usize::from(inside) * INSIDE;
    if at_once || inside {
        // SAFETY: a thread may cancel itself; the deferred type only marks it.
        unsafe { crate::real::cancel(crate::real::thread_self()) };
    }
}

/// Ends what [`begin`] started, if it did.
#[inline(always)]
fn end(call: &mut Operating) {
    // SAFETY: entered in `watch`.
    unsafe { cancel::leave(&raw mut call.frame) };
    give(call, true);
}

/// Ends the pair of events. `returned`: the operation was not left before its end.
#[inline(always)]
fn give(call: &mut Operating, returned: bool) {
    let waits = core::mem::take(&mut call.own[WAITS]);
    let (carries, waits) = (waits & 1 != 0, (waits & !1) as File);
    if !waits.is_null() && waiting::Before::from_words([call.own[AT], call.own[REST]]).differs(waits) {
        outside::may_have_waited();
        if carries && returned && waiting::may_read(waits) {
            carried::take(call.frame.place);
        }
    }
    let stream = core::mem::take(&mut call.own[STREAM]) as File;
    if !stream.is_null() {
        stream::unlock(stream, call.frame.place);
    }
}

/// The real operation is left by a cancellation or an exception.
unsafe extern "C" fn unwound(frame: *mut Frame) {
    // SAFETY: a frame that is watched here is the first member of its call.
    let call = unsafe { &mut *frame.cast::<Operating>() };
    // SAFETY: entered in `watch`.
    let acts = call.frame.result & FORCED != 0 && unsafe { cancel::unwinding(frame) };
    if acts && let Some(thread) = thread::current_if_known() {
        // The request caused all that follows.
        thread.join_clock(internal(Internal::Signals).clock.load(Ordering::Acquire));
    }
    if call.own[CANCELLED] == INSIDE {
        cancel::take_back();
    }
    give(call, false);
    match call.subject.shape {
        Shape::Flushes | Shape::All { .. } if call.state == FLUSHED => list::leave(call.own[LIST], call.frame.place),
        Shape::Reports => message::free(call),
        _ => {}
    }
    if acts {
        cancel::acted();
    } else if call.own[CANCELLED] != 0 {
        cancelled_again(call.frame.place);
    }
}

/// The event that the recording has behind a cancellation.
fn cancelled_again(place: usize) {
    if let Some(thread) = thread::current_if_known() {
        thread.ending = true;
        replay::enter(Kind::ThreadExit, place);
        replay::leave(Kind::ThreadExit, &[internal(Internal::Signals)], false);
    }
}

/// An operation without a lock.
#[inline(always)]
fn bare(call: &mut Operating, which: Which) -> usize {
    if call.state == START {
        call.state = RUNNING;
        call.own[STREAM] = 0;
        begin_alone(call, stream_of(call, which));
        memory::begins(call);
        return call.subject.real.address();
    }
    memory::ends(call);
    end(call);
    0
}

fn all(call: &mut Operating, filter: Filter, also_real: bool) -> usize {
    match call.state {
        START if among_others() == Mode::Off => {
            call.state = FINISHED;
            outside::may_wake();
            return call.subject.real.address();
        }
        START => {
            call.state = FLUSHED;
            call.own = [0; 8];
            call.own[LIST] = list::enter(call.frame.place);
        }
        FLUSHED => {
            if call.frame.result as u32 == u32::MAX {
                call.own[WORST] = usize::MAX;
            }
            end(call);
        }
        _ => {
            outside::may_have_waited();
            return 0;
        }
    }
    while let Some(stream) = list::written(call.own[NEXT]) {
        call.own[NEXT] += 1;
        begin(call, stream);
        if filter.wants(stream) {
            call.frame.args[0] = stream as usize;
            return real::at::fflush_unlocked.address();
        }
        end(call);
    }
    list::leave(call.own[LIST], call.frame.place);
    call.frame.result = call.own[WORST];
    call.state = FINISHED;
    if also_real { call.subject.real.address() } else { 0 }
}
