//! A replay of one process of a tree: those on the way to it run ahead of it,
//! quietly, and all others do not exist.
//!
//! A process's memory comes from the forks of its ancestors, so they are replayed
//! up to the one that leads to it. From then on each only hands on how the one that
//! it made ends: so the launcher sees the end of the process that it asked for.
//! What the others would have done for it (data, ends of children, signals) stands
//! in its own stream anyway.
//!
//! Apart from the life of processes because an ordinary replay comes here for nothing
//! but to find that it is one.

use super::processes;
use crate::link::Link;
use crate::replay::calls as replayed;
use crate::report::{self, Met};
use crate::runtime::{self, Mode};
use crate::thread;
use core::sync::atomic::{AtomicBool, Ordering};
use relive_order::Kind;
use relive_sys::dispatch::SIGSYS;
use relive_sys::syscall::number::{EXECVE, PRCTL, RT_SIGACTION, WAITID};
use relive_sys::syscall::{self, syscall6};
use relive_trace::control::{cause, debugger, flag, turn as state};
use relive_trace::layout::{NONE, end};
use relive_trace::plan::part;

/// The process has made the next one on the way, and does nothing for itself any more.
static OVER: AtomicBool = AtomicBool::new(false);
/// The process has, or had, writable memory that its children get no copy of.
static SHARES: AtomicBool = AtomicBool::new(false);

pub(super) fn is_on() -> bool {
    runtime::process_mode() == Mode::Replay && runtime::has_flag(flag::ALONE)
}

/// What the calling process has to do.
fn own_part() -> u32 {
    runtime::plan().process(runtime::process()).part
}

/// Whether the process that starts with this thread is not there; one that was killed before it could be recorded, and
/// has no thread, neither.
pub fn is_absent(thread: u32) -> bool {
    let part = |thread| runtime::plan().process(runtime::plan().thread(thread).process).part;
    is_on() && (thread == NONE || part(thread) == part::ABSENT)
}

/// Whether the process that the calling thread is about to fork is not there.
pub(super) fn forks_absent() -> bool {
    is_on() && thread::current_if_known().and_then(|thread| thread.forking).is_some_and(|heir| is_absent(heir.index))
}

/// The process that was started by a thread's `posix_spawn`, as the program knows it, if it is not there: what the
/// recording has of its start is passed over.
pub fn spawned_absent(link: Link) -> Option<u32> {
    if !is_on() || runtime::plan().child(link.parent, link.child_number).is_some_and(|index| !is_absent(index)) {
        return None;
    }
    while replayed::is_next(EXECVE) {
        replayed::take(EXECVE);
    }
    Some(processes::settle(-1) as u32)
}

/// Memory was mapped that fork children share.
pub(super) fn has_shared_memory() {
    SHARES.store(true, Ordering::Relaxed);
}

/// Before a fork: what a process shares with others it can't have without them.
pub(super) fn check_sharing() {
    if is_on() && SHARES.load(Ordering::Relaxed) {
        refuse();
    }
}

/// A segment was attached: memory that a process has in common with others whether it made them or not.
pub(super) fn attaches() {
    if is_on() {
        refuse();
    }
}

fn refuse() -> ! {
    let thread = thread::current();
    report::diverge(Met {
        cause: cause::SHARED,
        thread: thread.index,
        did: Some(Kind::Fork),
        event: thread.replay.events(),
        expected: 0,
        found: 0,
        place: 0,
        object: 0,
    })
}

/// The descriptor of the launcher that shows what is written to `descriptor`, of which the recording says that `shown`
/// showed it: of one process all that it wrote to its standard output and error is of interest, wherever that led.
pub(super) fn shown_by(descriptor: usize, shown: Option<u32>) -> Option<u32> {
    if !is_on() {
        return shown;
    }
    let standard = u32::try_from(descriptor).ok().filter(|number| matches!(number, 1 | 2));
    shown.or(standard).filter(|_| own_part() != part::AHEAD)
}

/// At the beginning of each thread. With the first one begins the process: if it is to be debugged, it waits for the
/// debugger.
pub fn begin() {
    const PR_SET_PTRACER: usize = 0x5961_6D61;
    const ANYBODY: usize = usize::MAX;
    if !is_on() || !runtime::has_flag(flag::DEBUGGER) || own_part() != part::ALONE {
        return;
    }
    // SAFETY: no pointers.
    unsafe { syscall6(PRCTL, PR_SET_PTRACER, ANYBODY, 0, 0, 0, 0) };
    let word = &runtime::session().debugger;
    let _ = word.compare_exchange(debugger::NONE, debugger::WANTED, Ordering::AcqRel, Ordering::Relaxed);
    while word.load(Ordering::Acquire) == debugger::WANTED {
        syscall::futex_wait(word, debugger::WANTED, Some(200));
        report::end_without_launcher();
    }
}

/// A process was made for real: on the way to the one that is wanted, that is all that was left to do.
pub(super) fn made(present: isize) {
    if present > 0 && is_on() && own_part() == part::AHEAD {
        hand_on_the_end_of(present as u32);
    }
}

/// Whether the calling thread is of a process that does nothing for itself any more.
pub(super) fn is_over() -> bool {
    OVER.load(Ordering::Relaxed)
}

/// What becomes of the other threads of such a process.
#[cold]
pub(super) fn rest() -> ! {
    if let Some(thread) = thread::current_if_known() {
        thread.replay.slot().state.store(state::ENDED, Ordering::Release);
    }
    report::hold()
}

#[cold]
fn hand_on_the_end_of(child: u32) -> ! {
    const SIGCHLD: u32 = 17;
    // First: an ignored signal would take the child's end with it.
    set_default(SIGCHLD);
    OVER.store(true, Ordering::Release);
    let own = thread::current();
    thread::each(|other| {
        if other.tid != 0 && other.tid != own.tid {
            syscall::tgkill(runtime::pid(), other.tid, SIGSYS);
        }
        true
    });
    own.replay.slot().state.store(state::ENDED, Ordering::Release);
    // What is sent to end the replay ends it.
    (1..=64).filter(|&number| number != SIGSYS).for_each(set_default);
    syscall::set_signal_mask(0);
    match end_of(child) {
        Some(End::Exited(code)) => syscall::exit_group(code),
        Some(End::Killed(signal)) => end_by(signal),
        // It was gone before the first line above. The launcher makes sure that it had done all that it did.
        None => syscall::exit_group(recorded_code()),
    }
}

/// How a child ended.
enum End {
    Exited(u32),
    Killed(u32),
}

/// Waits for a child's end.
fn end_of(child: u32) -> Option<End> {
    const P_PID: usize = 1;
    const WEXITED: usize = 4;
    /// `si_code` and `si_status`, in words.
    const CODE: usize = 2;
    const STATUS: usize = 6;
    const CLD_EXITED: u32 = 1;
    let mut told = [0u32; 32];
    loop {
        // SAFETY: the kernel writes the 128 bytes of the information.
        let result = unsafe { syscall6(WAITID, P_PID, child as usize, told.as_mut_ptr().addr(), WEXITED, 0, 0) };
        match (result, told[CODE]) {
            (0, CLD_EXITED) => return Some(End::Exited(told[STATUS])),
            (0, _) => return Some(End::Killed(told[STATUS])),
            (syscall::EINTR, _) => {}
            _ => return None,
        }
    }
}

/// The code that the wanted process exited with in the recording.
fn recorded_code() -> u32 {
    let plan = runtime::plan();
    let mut wanted = plan.processes().iter().rev().filter(|process| matches!(process.part, part::ALONE | part::WHOLE));
    wanted.find(|process| process.end == end::EXITED).map_or(0, |process| process.exit_code)
}

fn end_by(signal: u32) -> ! {
    const PR_SET_DUMPABLE: usize = 4;
    // The process that really ended so has left its core.
    // SAFETY: no pointers.
    unsafe { syscall6(PRCTL, PR_SET_DUMPABLE, 0, 0, 0, 0, 0) };
    syscall::tgkill(runtime::pid(), syscall::gettid(), signal);
    syscall::exit_group(128 + signal)
}

fn set_default(signal: u32) {
    let default = [0usize; 4];
    // SAFETY: the kernel reads an action of four words.
    unsafe { syscall6(RT_SIGACTION, signal as usize, default.as_ptr().addr(), 0, 8, 0, 0) };
}
