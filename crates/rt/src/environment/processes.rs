//! Threads and processes: made for real in a replay, under their recorded ids.
//!
//! The program sees the recorded process ids only; where it names a process to
//! the kernel, the id of the one that plays its part is put in.

mod children;

use super::ordered::Ordered;
use super::{Trapped, alone, heap, images, own_id, system_v};
use crate::object::Internal;
use crate::process::{Child, Creation};
use crate::replay::calls as replayed;
use crate::runtime::{self, Mode};
use crate::thread::{self, Thread};
use crate::{outside, process, stranger, writer};
use relive_sys::signal::Context;
use relive_sys::syscall;
use relive_sys::syscall::number::{
    CLONE, CLONE3, EXIT, EXIT_GROUP, FORK, KILL, PIDFD_SEND_SIGNAL, RT_SIGACTION, RT_SIGQUEUEINFO, RT_TGSIGQUEUEINFO,
    TGKILL, TKILL, VFORK,
};
use relive_sys::{aside, dispatch, tls};
use relive_trace::layout;

use children::present;
pub(super) use children::waited;

const ENOSYS: isize = -38;
const CLONE_VM: usize = 0x100;
const CLONE_VFORK: usize = 0x4000;
const CLONE_SETTLS: usize = 0x8_0000;
const CLONE_THREAD: usize = 0x1_0000;
/// Held while a process is made.
static FORKS: Ordered<()> = Ordered::new(Internal::Processes, ());

/// One fork after the other. In the child it returns, too.
pub(super) fn in_turn<R>(fork: impl FnOnce() -> R) -> R {
    let turn = FORKS.enter();
    let result = fork();
    FORKS.raise();
    drop(turn);
    result
}

/// Frees the lock in a fork child.
///
/// # Safety
/// Only in a fork child while it has one thread.
pub(super) unsafe fn reset_after_fork() {
    // SAFETY: the caller's promise.
    unsafe { FORKS.reset_after_fork() };
}

/// Carries out the call if it makes a thread or a process.
///
/// # Safety
/// The context must be of a trapped call.
pub(super) unsafe fn create(context: &mut Context) -> Trapped {
    let (number, arguments) = (context.number(), context.arguments());
    if number == CLONE && arguments[1] != 0 {
        let mut given = 0;
        if arguments[0] & CLONE_THREAD != 0 {
            if arguments[0] & CLONE_SETTLS != 0 {
                given = announce(arguments[4]);
            }
            process::about_to_clone();
        } else if arguments[0] & (CLONE_VM | CLONE_VFORK) == CLONE_VM {
            stranger::refuse("clone", context.place());
        }
        if arguments[0] & (CLONE_VM | CLONE_THREAD) == CLONE_VM && !waits_aside(arguments[0], context) {
            // It has the same thread-local words, and may end or execute something else in the midst of our code, or run beside
            // this thread: from here on neither goes aside.
            // SAFETY: without a stack there nobody uses one.
            unsafe { aside::give(0) };
        }
        // SAFETY: the caller's promise; the call names a stack.
        unsafe { context.clone_on_return(given) };
        return Trapped::GoesOn;
    }
    // SAFETY: the program's own call.
    unsafe { create_directly(number, &arguments) }.map_or(Trapped::Other, Trapped::Result)
}

/// Whether the thread was aside already when it made the trapped call with this context, as within `posix_spawn`, and waits
/// there for the process that shares its memory: that one stays on its own stack then.
fn waits_aside(flags: usize, context: &Context) -> bool {
    /// What stands between the context and where the call's own handler left.
    const NEAR: usize = 512;
    let context = core::ptr::from_ref(context).addr();
    flags & CLONE_VFORK != 0 && aside::left_at().is_some_and(|left| !(context - NEAR..context).contains(&left))
}

/// Announces a thread that no front announced: libc makes it for itself, or a library found libc's functions past ours.
/// Returns what the thread is given: its block, or 0.
fn announce(handle: usize) -> usize {
    let Some(thread) = thread::current_if_known() else { return 0 };
    if !thread.newborn.is_null() || thread.unseen {
        return 0;
    }
    let Creation::Child(child) = process::before_create(0) else { return 0 };
    // SAFETY: the block that was just made for it, which nobody else knows.
    unsafe {
        (*child).unannounced = true;
        (*child).start = [handle; 2];
    }
    child as usize
}

/// What such a thread does first.
pub(super) extern "C" fn started(given: usize) {
    // SAFETY: what `announce` returned for this thread.
    unsafe { process::thread_started(given as Child, tls::thread_pointer()) };
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
    alone::check_sharing();
    // The one event that a fork has while libc holds locks of its own: see `replay::await_next`.
    let held = heap::hold_with_memory();
    process::about_to_fork();
    // SAFETY: the caller's promise.
    let present = if alone::forks_absent() { -1 } else { unsafe { dispatch::program_call(number, arguments) } };
    drop(held);
    if present == 0 {
        dispatch::arm();
        children::forget_all();
        return 0;
    }
    let seen = settle(present);
    alone::made(present);
    seen
}

/// The id of a new process, or why there is none, as the program sees it.
pub(super) fn settle(present: isize) -> isize {
    let Some(thread) = thread::current_if_known() else { return present };
    match runtime::mode() {
        Mode::Off => present,
        Mode::Record => {
            // SAFETY: no pieces.
            unsafe { writer::append_call(thread, CLONE, present, &|_| {}) };
            present
        }
        Mode::Replay => {
            let taken = replayed::take(CLONE);
            if present > 0 && taken.result > 0 {
                children::remember(taken.result as u32, present as u32);
            }
            taken.result
        }
    }
}

/// The parent's side of a `clone` with a stack: of a process, the program sees the recorded id.
pub(super) extern "C" fn created(flags: usize, result: isize) -> isize {
    aside::with(|| is_created(flags, result))
}

fn is_created(flags: usize, result: isize) -> isize {
    if flags & CLONE_VFORK != 0 && result > 0 {
        images::release(result as u32);
    }
    if flags & CLONE_THREAD != 0
        && let Some(thread) = thread::current_if_known()
        && !thread.newborn.is_null()
    {
        let child = thread.newborn;
        // SAFETY: the block of the thread that was just made, or not; it stays until the thread is joined.
        unsafe {
            if (*child).unannounced {
                process::after_create(child, (*child).start[0], false, -result.min(0) as i32, 0);
            }
        }
        return result;
    }
    if flags & CLONE_THREAD != 0 || thread::current_if_known().is_none_or(|thread| thread.unseen) {
        return result;
    }
    settle(result)
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
    if matches!(number, KILL | TGKILL) {
        // SAFETY: the caller's promise. It may end the process: so the record is taken afterwards.
        unsafe { send(number, arguments) };
    }
    replayed::take(number).result
}

/// The thread that plays the part of a recorded one. The first of a process has its id; of others the program must have
/// asked for it, unless libc names the thread, which knows the present one.
fn present_thread(named: u32, process: u32) -> u32 {
    let mut found = None;
    thread::each(|thread| {
        if thread.recorded_tid == named {
            found = Some(thread.tid);
        }
        found.is_none()
    });
    found.unwrap_or(if present(named) == Some(process) { process } else { named })
}

/// What stops a process or lets it go on. Nobody stops in a replay: what comes after is later in the recorded order.
const STOPS_OR_CONTINUES: core::ops::RangeInclusive<usize> = 18..=22;

/// Sends a signal in a replay, to the process that plays the part of the recorded one. How others end is their parents'
/// business, see `children`; nobody outside of the recording is sent anything.
///
/// # Safety
/// As for the call itself.
pub(super) unsafe fn send(number: usize, arguments: &[usize; 6]) -> isize {
    let mut given = *arguments;
    // Every process of the group, or every process there is, may be named as well: zero and below.
    if (arguments[0] as i32) <= 0 {
        return 0;
    }
    if number != TKILL && number != PIDFD_SEND_SIGNAL {
        let Some(target) = present(arguments[0] as u32) else { return 0 };
        let signal = arguments[if matches!(number, TGKILL | RT_TGSIGQUEUEINFO) { 2 } else { 1 }];
        if target != runtime::pid() || STOPS_OR_CONTINUES.contains(&signal) {
            return 0;
        }
        if ends_by_itself() && is_left_to_kernel(signal) {
            return 0;
        }
        given[0] = target as usize;
        if number == TGKILL {
            given[1] = present_thread(arguments[1] as u32, target) as usize;
        }
    }
    // SAFETY: the caller's promise.
    unsafe { dispatch::program_call(number, &given) }
}

/// Whether this image came to its end by itself: no signal that the kernel was left to act on has struck it. What was sent
/// all the same was taken (`sigwait`, a signalfd), which a replay does without the kernel, and would be pending for ever.
fn ends_by_itself() -> bool {
    matches!(runtime::plan().process(runtime::process()).end, layout::end::EXITED | layout::end::EXECUTED)
}

/// Whether the program neither handles a signal nor libc, which has two for itself.
fn is_left_to_kernel(signal: usize) -> bool {
    const OF_LIBC: core::ops::RangeInclusive<usize> = 32..=33;
    const SIG_IGN: usize = 1;
    let mut action = [0usize; 4];
    // SAFETY: the kernel writes the four words of an action.
    let result = unsafe { dispatch::program_call(RT_SIGACTION, &[signal, 0, action.as_mut_ptr().addr(), 8, 0, 0]) };
    result == 0 && action[0] <= SIG_IGN && !OF_LIBC.contains(&signal)
}

/// The end of a thread, or of the process.
///
/// # Safety
/// As for the call itself.
pub(super) unsafe fn exit(number: usize, arguments: &[usize; 6]) -> isize {
    // A child that shares our memory, on its way to another image, is not the process that the recording knows.
    if number == EXIT_GROUP && syscall::getpid() == runtime::pid() {
        system_v::end();
        process::gone();
    }
    if number == EXIT && thread::current_if_known().is_some_and(|thread| thread.unannounced && !thread.finished) {
        process::thread_finished();
    }
    if number == EXIT {
        // Of a thread that ends with a robust mutex, another process may wait for that.
        outside::may_wake();
    }
    // SAFETY: the caller's promise.
    unsafe { dispatch::program_call(number, arguments) }
}
