//! Threads and processes: made for real in a replay, under their recorded ids.
//!
//! The program sees the recorded process ids only; where it names a process to
//! the kernel, the id of the one that plays its part is put in.

use super::{Program, Trapped};
use crate::replay::{self, calls as replayed};
use crate::runtime::{self, Mode};
use crate::thread::{self, Thread};
use crate::{outside, process, writer};
use core::sync::atomic::{AtomicU64, Ordering};
use relive_sys::dispatch;
use relive_sys::signal::Context;
use relive_sys::syscall::{self, syscall6};

const CLONE: usize = 56;
const FORK: usize = 57;
const VFORK: usize = 58;
const WAIT4: usize = 61;
const KILL: usize = 62;
const EXIT_GROUP: usize = 231;
const TGKILL: usize = 234;
const RT_SIGQUEUEINFO: usize = 129;
const TKILL: usize = 200;
const WAITID: usize = 247;
const RT_TGSIGQUEUEINFO: usize = 297;
const PIDFD_SEND_SIGNAL: usize = 424;
const CLONE3: usize = 435;
const ENOSYS: isize = -38;
const CLONE_VM: usize = 0x100;
const CLONE_THREAD: usize = 0x1_0000;
const WEXITED: usize = 4;
const P_PID: usize = 1;
/// Children that a process has at the same time, at most, for a replay to translate all their ids.
const CHILDREN: usize = 1024;

/// Recorded and present id of each child, in one word; 0 where there is none.
static PLAYED: [AtomicU64; CHILDREN] = [const { AtomicU64::new(0) }; CHILDREN];

fn remember(recorded: u32, present: u32) {
    let entry = u64::from(recorded) << 32 | u64::from(present);
    for place in &PLAYED {
        if place.compare_exchange(0, entry, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}

/// The process that plays the part of a recorded one: this one or a child.
fn present(recorded: u32) -> Option<u32> {
    if recorded == runtime::plan().process(runtime::process()).pid {
        return Some(runtime::pid());
    }
    let entries = PLAYED.iter().map(|place| place.load(Ordering::Acquire));
    entries.filter(|&entry| entry != 0).find(|entry| (entry >> 32) as u32 == recorded).map(|entry| entry as u32)
}

fn forget(recorded: u32) {
    for place in &PLAYED {
        let entry = place.load(Ordering::Acquire);
        if entry != 0 && (entry >> 32) as u32 == recorded {
            let _ = place.compare_exchange(entry, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

/// Carries out the call if it makes a thread or a process.
///
/// # Safety
/// The context must be of a trapped call.
pub(super) unsafe fn create(context: &mut Context) -> Trapped {
    let (number, arguments) = (context.number(), context.arguments());
    if number == CLONE && arguments[1] != 0 {
        if arguments[0] & CLONE_THREAD != 0 {
            process::about_to_clone();
        }
        // SAFETY: the caller's promise; the call names a stack.
        unsafe { context.clone_on_return() };
        return Trapped::GoesOn;
    }
    // SAFETY: the program's own call.
    unsafe { create_directly(number, &arguments) }.map_or(Trapped::Other, Trapped::Result)
}

/// [`create`] for a call that came by a jump: of a child on another stack nobody would know where it goes on, as in a
/// plain run; libc makes those where they can't be turned into jumps.
///
/// # Safety
/// As for the call itself.
pub(super) unsafe fn create_directly(number: usize, arguments: &[usize; 6]) -> Option<isize> {
    match number {
        // Without a stack of its own a child that shares memory would run on its parent's, and on our handler's frame.
        CLONE if arguments[0] & CLONE_THREAD == 0 => {
            let given = [arguments[0] & !CLONE_VM, arguments[1], arguments[2], arguments[3], arguments[4], 0];
            // SAFETY: the program's own call.
            Some(unsafe { fork(CLONE, &given) })
        }
        // Also of threads that nobody announced: the child would go on in our code, on an empty stack.
        CLONE3 => Some(ENOSYS),
        // SAFETY: the program's own call. A vfork child would go on in the frame of our handler.
        FORK | VFORK => Some(unsafe { fork(FORK, &[0; 6]) }),
        _ => None,
    }
}

unsafe fn fork(number: usize, arguments: &[usize; 6]) -> isize {
    // SAFETY: the caller's promise.
    let present = unsafe { dispatch::program_call(number, arguments) };
    if present == 0 {
        dispatch::arm();
        for place in &PLAYED {
            place.store(0, Ordering::Relaxed);
        }
        return 0;
    }
    settle(number, present)
}

/// The id of a new process, or why there is none, as the program sees it.
fn settle(number: usize, present: isize) -> isize {
    let Some(thread) = thread::current_if_known() else { return present };
    match runtime::mode() {
        Mode::Off => present,
        Mode::Record => {
            // SAFETY: no pieces.
            unsafe { writer::append_call(thread, number, present, &|_| {}) };
            present
        }
        Mode::Replay => {
            let taken = replayed::take(number);
            if present > 0 && taken.result > 0 {
                remember(taken.result as u32, present as u32);
            }
            taken.result
        }
    }
}

/// The parent's side of a `clone` with a stack: of a process, the program sees the recorded id.
pub(super) extern "C" fn created(flags: usize, result: isize) -> isize {
    if flags & CLONE_THREAD != 0 || thread::current_if_known().is_none() {
        return result;
    }
    settle(CLONE, result)
}

/// `wait4` and `waitid`: the recorded answer, and the child that plays the part of the recorded one is reaped.
///
/// # Safety
/// As for the call itself.
pub(super) unsafe fn wait(thread: &mut Thread, number: usize, arguments: &[usize; 6]) -> isize {
    let outputs = relive_calls::execute_outputs(number);
    let before = relive_calls::before(outputs, arguments, &Program);
    if runtime::mode() == Mode::Record {
        // SAFETY: the caller's promise; after the call the kernel has written the pieces.
        unsafe {
            let result = dispatch::program_call(number, arguments);
            writer::append_call(thread, number, result, &|visit| {
                relive_calls::written(outputs, arguments, &before, result, &Program, visit);
            });
            return result;
        }
    }
    let taken = replayed::take(number);
    let mut filler = taken.filler();
    relive_calls::written(outputs, arguments, &before, taken.result, &Program, &mut |address, length| {
        // SAFETY: memory that the kernel wrote in the recording, by the same arguments.
        unsafe { filler.fill(address, length) };
    });
    filler.finish(number);
    match number {
        WAIT4 if taken.result > 0 => reap(taken.result as u32),
        WAITID if taken.result == 0 && arguments[2] != 0 => {
            // SAFETY: the siginfo that was just filled; the child's id is its fourth word.
            let child = unsafe { ((arguments[2] + 12) as *const u32).read_unaligned() };
            reap(child);
        }
        _ => {}
    }
    taken.result
}

fn reap(recorded: u32) {
    let Some(present) = present(recorded).filter(|&pid| pid != runtime::pid()) else { return };
    replay::set_blocked(true, 0);
    // Another child's end may interrupt the wait.
    // SAFETY: nothing is written.
    while unsafe { syscall6(WAITID, P_PID, present as usize, 0, WEXITED, 0, 0) } == syscall::EINTR {}
    replay::set_blocked(false, 0);
    forget(recorded);
}

/// Whether a call sends a signal to a process or thread.
pub(super) fn sends_signal(number: usize) -> bool {
    matches!(number, KILL | TKILL | TGKILL | RT_SIGQUEUEINFO | RT_TGSIGQUEUEINFO | PIDFD_SEND_SIGNAL)
}

/// Sending signals: to the processes of the recording only.
///
/// # Safety
/// As for the call itself.
pub(super) unsafe fn signal(thread: &mut Thread, number: usize, arguments: &[usize; 6]) -> isize {
    if runtime::mode() == Mode::Record {
        outside::may_wake();
        // SAFETY: the caller's promise.
        unsafe {
            let result = dispatch::program_call(number, arguments);
            writer::append_call(thread, number, result, &|_| {});
            return result;
        }
    }
    let mut given = *arguments;
    if matches!(number, KILL | TGKILL) {
        let Some(target) = present(arguments[0] as u32) else { return replayed::take(number).result };
        given[0] = target as usize;
        if number == TGKILL && arguments[1] == arguments[0] {
            given[1] = target as usize;
        }
        // SAFETY: the caller's promise. It may end the process: so the record is taken afterwards.
        unsafe { dispatch::program_call(number, &given) };
    }
    replayed::take(number).result
}

/// The end of a thread, or of the process.
///
/// # Safety
/// As for the call itself.
pub(super) unsafe fn exit(number: usize, arguments: &[usize; 6]) -> isize {
    // A child that shares our memory, on its way to another image, is not the process that the recording knows.
    if number == EXIT_GROUP && runtime::mode() == Mode::Record && syscall::getpid() == runtime::pid() {
        process::gone();
    }
    // SAFETY: the caller's promise.
    unsafe { dispatch::program_call(number, arguments) }
}
