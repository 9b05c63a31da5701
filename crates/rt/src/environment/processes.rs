//! Threads and processes: made for real in a replay, under their recorded ids.
//!
//! The program sees the recorded process ids only; where it names a process to
//! the kernel, the id of the one that plays its part is put in.

use super::{Trapped, images, own_id};
use crate::replay::{self, calls as replayed};
use crate::runtime::{self, Mode};
use crate::thread::{self, Thread};
use crate::{outside, process, writer};
use core::sync::atomic::{AtomicU64, Ordering};
use relive_sys::dispatch;
use relive_sys::signal::Context;
use relive_sys::syscall::number::{
    CLONE, CLONE3, EXIT_GROUP, FORK, KILL, PIDFD_SEND_SIGNAL, RT_SIGQUEUEINFO, RT_TGSIGQUEUEINFO, TGKILL, TKILL, VFORK,
    WAIT4, WAITID,
};
use relive_sys::syscall::{self, syscall6};

const ENOSYS: isize = -38;
const CLONE_VM: usize = 0x100;
const CLONE_VFORK: usize = 0x4000;
const CLONE_THREAD: usize = 0x1_0000;
const WSTOPPED: usize = 2;
const WEXITED: usize = 4;
const WCONTINUED: usize = 8;
const CLD_STOPPED: u32 = 5;
const CLD_CONTINUED: u32 = 6;
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
    if recorded == own_id() {
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
    if flags & CLONE_VFORK != 0 && result > 0 {
        images::release(result as u32);
    }
    if flags & CLONE_THREAD != 0 || thread::current_if_known().is_none() {
        return result;
    }
    settle(CLONE, result)
}

/// After `wait4` or `waitid` in a replay: waits until the child that plays the part of the recorded one has changed in
/// the same way, and takes it.
///
/// # Safety
/// The outputs of the call must be in place.
pub(super) unsafe fn waited(number: usize, arguments: &[usize; 6], result: isize) {
    /// `si_code` and `si_pid`.
    const CODE: usize = 8;
    const PID: usize = 12;
    // SAFETY: what the kernel wrote in the recording, and the replay put there.
    let word = |address: usize| unsafe { (address as *const u32).read_unaligned() };
    match number {
        WAIT4 if result > 0 => {
            // Who does not ask for the status waits for the end.
            let status = if arguments[1] == 0 { 0 } else { word(arguments[1]) };
            let change = match (status, status & 0xFF) {
                (0xFFFF, _) => WCONTINUED,
                (_, 0x7F) => WSTOPPED,
                _ => WEXITED,
            };
            take_change(result as u32, change);
        }
        WAITID if result == 0 && arguments[2] != 0 => {
            let change = match word(arguments[2] + CODE) {
                CLD_STOPPED => WSTOPPED,
                CLD_CONTINUED => WCONTINUED,
                _ => WEXITED,
            };
            take_change(word(arguments[2] + PID), change);
        }
        _ => {}
    }
}

fn take_change(recorded: u32, change: usize) {
    let Some(present) = present(recorded).filter(|&pid| pid != runtime::pid()) else { return };
    replay::set_blocked(true, 0);
    // Another child's end may interrupt the wait.
    // SAFETY: nothing is written.
    while unsafe { syscall6(WAITID, P_PID, present as usize, 0, change, 0, 0) } == syscall::EINTR {}
    replay::set_blocked(false, 0);
    if change == WEXITED {
        forget(recorded);
    }
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
