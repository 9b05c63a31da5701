//! Streams begin and end.
//!
//! Apart because the end of a stream is also its end as an object: what follows
//! may not touch it, and its clock's last event comes when its memory may already
//! be another's.

use super::stream::File;
use super::{Operating, RUNNING, START, STREAM, WAITS, end, list, stream, waiting, watch};
use crate::libc_state::among_others;
use crate::processes::popen;
use relive_rt::environment::carried::{self, Carries};
use relive_rt::{Mode, outside};

/// Slot of [`crate::variadic::Call::own`]: whether the stream that ends could wait.
const PARTED: usize = 5;

pub(super) fn opens(call: &mut Operating, by_name: bool) -> usize {
    let how = call.frame.args[1] as *const u8;
    // SAFETY: the program's arguments: a string says how the file is opened.
    let of_stream = by_name.then(|| unsafe { Carries::of_stream(how) });
    let carries = of_stream.unwrap_or(Carries::NOTHING);
    if call.state == START {
        call.state = RUNNING;
        (call.own[STREAM], call.own[WAITS]) = (0, 0);
        carries.before(call.frame.place);
        outside::may_wake();
        watch(call, core::ptr::null_mut());
        return call.subject.real.address();
    }
    end(call);
    let stream = call.frame.result as File;
    if !stream.is_null() {
        if waiting::can_wait(stream) {
            outside::may_have_waited();
        }
        list::join(stream, call.frame.place);
    }
    carries.behind(0, call.frame.place);
    0
}

pub(super) fn closes(call: &mut Operating, argument: usize) -> usize {
    if call.state == START {
        let of_process = popen::closes(call.frame.args[argument] as _);
        if of_process == 0 {
            return part(call, argument);
        }
        call.state = RUNNING;
        (call.own[STREAM], call.own[WAITS], call.own[PARTED]) = (0, 0, 0);
        watch(call, core::ptr::null_mut());
        return of_process;
    }
    let stream = parted(call);
    if !stream.is_null() {
        stream::gone(stream, call.frame.place);
    }
    0
}

pub(super) fn reopens(call: &mut Operating, argument: usize) -> usize {
    if call.state == START {
        return part(call, argument);
    }
    let stream = parted(call);
    if !stream.is_null() {
        stream::unlock(stream, call.frame.place);
    }
    list::join(call.frame.result as File, call.frame.place);
    0
}

/// Starts the last pair of events on a stream.
fn part(call: &mut Operating, argument: usize) -> usize {
    let stream = call.frame.args[argument] as File;
    call.state = RUNNING;
    (call.own[STREAM], call.own[WAITS]) = (0, 0);
    if among_others() != Mode::Off {
        list::part(stream, call.frame.place);
        call.own[STREAM] = stream as usize;
    }
    outside::may_wake();
    call.own[PARTED] = usize::from(waiting::can_wait(stream));
    if call.own[PARTED] != 0 && carried::is_ordered() {
        // What is in the buffer goes out, and then the reader finds the end.
        carried::give(call.frame.place);
    }
    waiting::forget(stream);
    watch(call, stream);
    call.subject.real.address()
}

/// After what [`part`] started: the stream that was locked, if one was.
fn parted(call: &mut Operating) -> File {
    let stream = core::mem::take(&mut call.own[STREAM]) as File;
    end(call);
    if call.own[PARTED] != 0 {
        outside::may_have_waited();
    }
    stream
}
