//! Calls whose shape the table does not know: the recording ends before them.
//!
//! Apart from the other ways that a call can go because nothing of this thread is
//! recorded from then on.

use super::taking_part;
use crate::replay::calls as replayed;
use crate::runtime::{self, Mode};
use crate::thread::Thread;
use crate::{chunk, report, writer};
use relive_calls::Unknown;
use relive_sys::signal::Context;
use relive_sys::{dispatch, gate};
use relive_trace::layout::stop;

/// # Safety
/// As for the call itself.
#[inline(never)] // Its buffers would weigh on the stack of every call.
pub(super) unsafe fn refuse(thread: &mut Thread, number: usize, arguments: &[usize; 6], unknown: &Unknown) -> isize {
    if runtime::mode() == Mode::Replay {
        replayed::refused(number);
    }
    let Unknown { call, request } = unknown;
    report::line(format_args!(
        "recording stopped: system call {number} ({call}, request {request:#x}) can't be recorded; the program goes on, \
         the trace is valid up to here"
    ));
    end_here(thread);
    // SAFETY: the caller's promise.
    unsafe { dispatch::program_call(number, arguments) }
}

/// The recording ends before a call of this thread. What it calls later would be taken for that call: no event may come
/// between the two.
pub(super) fn end_here(thread: &mut Thread) {
    chunk::stop_recording(stop::REFUSED, thread.clock_base());
    writer::close_run(thread);
    writer::go_on_unrecorded(thread);
}

/// A call of `int 0x80`: its numbers are not those of the table.
///
/// # Safety
/// The context must be of that call.
#[inline(never)]
pub(super) unsafe fn refuse_gate(context: &mut Context) {
    let number = context.number();
    if let Some(thread) = taking_part() {
        if runtime::mode() == Mode::Replay {
            replayed::refused(number);
        }
        report::line(format_args!(
            "recording stopped: call {number} of 32 bits (int 0x80) can't be recorded; the program goes on, the trace is \
             valid up to here"
        ));
        end_here(thread);
    }
    // rbx, rcx, rdx, rsi, rdi, rbp.
    let arguments = [3, 1, 2, 6, 7, 5].map(|register| *context.operand(register) as u32);
    // SAFETY: the program's own call.
    let result = unsafe { gate::call(number as u32, arguments) };
    context.set_result(result as isize);
}
