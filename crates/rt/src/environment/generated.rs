//! Code that no file shows: made by the program itself, or such of a file of which it
//! is not known where its instructions begin.
//!
//! It can't be looked through once and for all, and what looks like an instruction
//! may be something else. So where it may ask for the time, the kernel lets the thread
//! that makes it, and whichever that makes, fault at `rdtsc` from then on. What asks for
//! random numbers or the processor can't be caught in this way. Threads that are there already follow behind their next
//! call, or what they wait for; the recording says where.
//!
//! That is not done from the beginning because of what it costs, see
//! `relive_sys::outside::forbidden`: memory that is executable but not writable is looked
//! through for bytes that might ask, and most programs have none.

use super::{faults, instructions, memory};
use crate::thread::{self, Thread};
use crate::writer;
use core::ops::Range;
use relive_sys::outside::forbidden::{self, SIGSEGV};
use relive_sys::syscall::number::{PRCTL, RT_SIGPROCMASK};
use relive_sys::syscall::syscall6;
use relive_trace::record::instruction;

const PROT_READ: usize = 1;
const PROT_WRITE: usize = 2;
const PROT_EXEC: usize = 4;
const PR_GET_TSC: usize = 25;
const PR_SET_TSC: usize = 26;
const PR_TSC_ENABLE: u32 = 1;

/// Whether the calling thread faults already. In a replay others may be ahead of their recording.
fn has_begun() -> bool {
    thread::current_if_known().map_or(forbidden::is_on(), |thread| thread.time_forbidden)
}

/// Memory with these rights may hold anything, now or later.
pub(super) fn may_change(protection: usize) {
    if protection & PROT_EXEC != 0 && !has_begun() && instructions::is_on() {
        begin();
    }
}

/// The memory in a range was given these rights.
pub(super) fn appears(range: &Range<usize>, protection: usize) {
    let reads = protection & (PROT_READ | PROT_WRITE) == PROT_READ;
    if protection & PROT_EXEC != 0 && !has_begun() && (!reads || may_ask(range)) {
        may_change(protection);
    }
}

/// Whether some of the memory in a range may ask for the time.
#[inline(never)] // Its buffer would weigh on the stack of every call.
fn may_ask(range: &Range<usize>) -> bool {
    const PIECE: usize = 4096;
    /// An opcode has three bytes.
    const OVERLAP: usize = 2;
    let mut piece = [0; PIECE];
    range.clone().step_by(PIECE - OVERLAP).any(|at| {
        let length = PIECE.min(range.end - at);
        // What is behind a file's end can't be read, and not run either.
        memory::read(at, &mut piece[..length]) && forbidden::may_be_in(&piece[..length])
    })
}

/// The calling thread makes such code, or comes to where the recording says that another one had.
pub fn begin() {
    forbid();
    if let Some(thread) = thread::current_if_known() {
        thread.time_forbidden = true;
    }
}

/// The calling thread may not ask for the time by itself any more.
fn forbid() {
    const SIG_UNBLOCK: usize = 1;
    if forbidden::forbid() {
        faults::share(SIGSEGV);
        let mask = 1u64 << (SIGSEGV - 1);
        // SAFETY: the kernel reads a mask of eight bytes.
        unsafe { syscall6(RT_SIGPROCMASK, SIG_UNBLOCK, (&raw const mask).addr(), 0, 8, 0, 0) };
    }
}

/// Whether another thread has made such code, and the calling one may still ask.
#[inline]
pub fn is_owed(thread: &Thread) -> bool {
    forbidden::is_on() && !thread.time_forbidden
}

/// The calling thread, which records, follows.
#[cold]
#[inline(never)]
pub fn pay(thread: &mut Thread) {
    thread.time_forbidden = true;
    forbid();
    // SAFETY: no pieces.
    unsafe { writer::append_call(thread, usize::from(instruction::FORBIDDEN), 0, &|_| {}) };
}

/// Before another image starts, which would not know.
pub(super) fn leave_image() {
    if forbidden::is_on() {
        forbidden::allow();
    }
}

/// It did not start.
pub(super) fn stay_in_image() {
    if forbidden::is_on() {
        forbidden::forbid();
    }
}

/// After a call of the program's that asked whether it may ask for the time, or changed that.
///
/// # Safety
/// As for the call itself, which has just been made.
pub(super) unsafe fn hide(number: usize, arguments: &[usize; 6], result: isize) {
    if number != PRCTL || result != 0 || !forbidden::is_on() {
        return;
    }
    match arguments[0] {
        // SAFETY: the kernel has just written there.
        PR_GET_TSC => unsafe { (arguments[1] as *mut u32).write_unaligned(PR_TSC_ENABLE) },
        PR_SET_TSC => {
            forbidden::forbid();
        }
        _ => {}
    }
}
