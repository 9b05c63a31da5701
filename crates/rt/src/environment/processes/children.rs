//! The children of a process in a replay: who plays the part of whom, and how
//! they end.
//!
//! No signal that would end a process is sent to another one in a replay: it would
//! strike when it strikes, and in the recording it struck behind what the process
//! had done by then. Whoever the signal came from, the parent hears of the end
//! when it waits; so it is the parent that ends the child, once that has come to
//! the end of what was recorded of it. Where races are looked for the child tells first
//! what it did last: by `SIGSYS`, which the program can't have.

use crate::races;
use crate::replay;
use crate::report::{self, Met};
use crate::runtime;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use relive_sys::dispatch::SIGSYS;
use relive_sys::syscall::number::{KILL, WAIT4, WAITID};
use relive_sys::syscall::{self, syscall6};
use relive_trace::control::{cause, turn};
use relive_trace::layout::{self, NONE};

const WNOHANG: usize = 1;
const WEXITED: usize = 4;
const WNOWAIT: usize = 0x100_0000;
const CLD_EXITED: u32 = 1;
const CLD_STOPPED: u32 = 5;
const CLD_CONTINUED: u32 = 6;
const P_PID: usize = 1;
const SIGKILL: usize = 9;
/// Children that a process has at the same time, at most, for a replay to translate all their ids.
const CHILDREN: usize = 1024;

/// Recorded and present id of each child, in one word; 0 where there is none.
static PLAYED: [AtomicU64; CHILDREN] = [const { AtomicU64::new(0) }; CHILDREN];

/// A child was made.
pub(super) fn remember(recorded: u32, present: u32) {
    let entry = u64::from(recorded) << 32 | u64::from(present);
    for place in &PLAYED {
        if place.compare_exchange(0, entry, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}

/// A fork child has no children.
pub(super) fn forget_all() {
    for place in &PLAYED {
        place.store(0, Ordering::Relaxed);
    }
}

/// The process that plays the part of a recorded one: this one or a child.
pub(super) fn present(recorded: u32) -> Option<u32> {
    if recorded == super::own_id() {
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

/// What a wait told of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// It ended by itself.
    Exited,
    /// A signal ended it.
    Killed,
    /// It stopped, or went on. No process stops in a replay.
    Other,
}

/// After `wait4` or `waitid` in a replay: waits until the child that plays the part of the recorded one has ended, too,
/// and takes it.
///
/// # Safety
/// The outputs of the call must be in place.
pub(in super::super) unsafe fn waited(number: usize, arguments: &[usize; 6], result: isize) {
    /// `si_code` and `si_pid`.
    const CODE: usize = 8;
    const PID: usize = 12;
    // SAFETY: what the kernel wrote in the recording, and the replay put there.
    let word = |address: usize| unsafe { (address as *const u32).read_unaligned() };
    match number {
        WAIT4 if result > 0 => {
            let recorded = result as u32;
            let change = match arguments[1] {
                // Who does not ask for the status waits for the end.
                0 if ended_by_itself(recorded) => Change::Exited,
                0 => Change::Killed,
                address => told(word(address)),
            };
            take(recorded, change, 0);
        }
        WAITID if result == 0 && arguments[2] != 0 => {
            let change = match word(arguments[2] + CODE) {
                CLD_STOPPED | CLD_CONTINUED => Change::Other,
                CLD_EXITED => Change::Exited,
                _ => Change::Killed,
            };
            take(word(arguments[2] + PID), change, arguments[3] & WNOWAIT);
        }
        _ => {}
    }
}

/// What a status says.
fn told(status: u32) -> Change {
    match (status, status & 0x7F) {
        (0xFFFF, _) | (_, 0x7F) => Change::Other,
        (_, 0) => Change::Exited,
        _ => Change::Killed,
    }
}

fn take(recorded: u32, change: Change, keeps: usize) {
    const PAUSE_MS: u32 = 1;
    /// So long it may tell of races, more than it waits for its threads.
    const TELLING_MS: u32 = 10_000;
    let Some(present) = present(recorded).filter(|&pid| pid != runtime::pid()) else { return };
    if change == Change::Other {
        return;
    }
    replay::set_blocked(true, 0);
    if change == Change::Killed {
        let never = AtomicU32::new(0);
        while !wait(present, WEXITED | WNOHANG | WNOWAIT) && !has_run_all(recorded) {
            syscall::futex_wait(&never, 0, Some(PAUSE_MS));
        }
        if races::is_on() {
            end(present, SIGSYS as usize);
            let mut left = TELLING_MS;
            while left > 0 && !wait(present, WEXITED | WNOHANG | WNOWAIT) {
                syscall::futex_wait(&never, 0, Some(PAUSE_MS));
                left -= 1;
            }
        }
        end(present, SIGKILL);
    }
    let told = told_by_wait(present, WEXITED | keeps);
    if let (Change::Exited, Some(signal)) = (change, told.ok().and_then(crash)) {
        report_crash(recorded, signal);
    }
    replay::set_blocked(false, 0);
    if keeps == 0 {
        forget(recorded);
    }
}

/// The signal, if a child crashed, as `waitid` tells it. Nobody sends it one of those in a replay.
fn crash(told: [u32; 32]) -> Option<u32> {
    const CRASHES: [u32; 5] = [4, 6, 7, 8, 11];
    let [code, status] = [told[2], told[6]];
    (code != CLD_EXITED && CRASHES.contains(&status)).then_some(status)
}

/// The end of a replay in which a child crashed that the recording has end by itself: it may have done all its events by then.
#[cold]
fn report_crash(recorded: u32, signal: u32) {
    let plan = runtime::plan();
    let last = last_image(recorded);
    let of_child = (0..).zip(runtime::turns()).find(|&(index, _)| Some(plan.thread(index).process) == last);
    if let Some((thread, slot)) = of_child {
        let event = slot.events.load(Ordering::Acquire);
        report::diverge(Met { cause: cause::KILLED, thread, event, found: signal.into(), ..Met::default() });
    }
}

/// Sends a signal that ends a child, which nobody but us can have taken.
fn end(present: u32, signal: usize) {
    // SAFETY: no pointers.
    unsafe { syscall6(KILL, present as usize, signal, 0, 0, 0, 0) };
}

/// Waits for a child; whether there is something to tell of it, or will never be.
fn wait(present: u32, how: usize) -> bool {
    !told_by_wait(present, how).is_ok_and(|info| info[0] == 0)
}

/// What `waitid` tells of a child; or why it does not.
fn told_by_wait(present: u32, how: usize) -> Result<[u32; 32], isize> {
    loop {
        let mut info = [0u32; 32];
        // SAFETY: the kernel writes the 128 bytes of the information.
        let result = unsafe { syscall6(WAITID, P_PID, present as usize, info.as_mut_ptr().addr(), how, 0, 0) };
        match result {
            0 => return Ok(info),
            // Another child's end may interrupt the wait.
            syscall::EINTR => {}
            error => return Err(error),
        }
    }
}

/// The last image that the recording has of a process. None if it was killed before it did anything.
fn last_image(recorded: u32) -> Option<u32> {
    let plan = runtime::plan();
    (0..plan.process_count()).rev().find(|&index| plan.process(index).pid == recorded)
}

fn ended_by_itself(recorded: u32) -> bool {
    last_image(recorded).is_some_and(|image| runtime::plan().process(image).end == layout::end::EXITED)
}

/// Whether a process of the recording has done all that was recorded of it.
fn has_run_all(recorded: u32) -> bool {
    let Some(image) = last_image(recorded) else { return true };
    let plan = runtime::plan();
    (0..).zip(runtime::turns()).all(|(index, slot)| {
        let recorded = plan.thread(index);
        if recorded.process != image {
            // What it brings into being last of all must be there.
            let is_child = recorded.parent != NONE && plan.thread(recorded.parent).process == image;
            return !is_child || slot.tid.load(Ordering::Acquire) != 0;
        }
        let has_nothing = recorded.events == 0 && recorded.stream_len == 0;
        let is_done = slot.is_done.load(Ordering::Acquire) != 0;
        has_nothing || is_done || matches!(slot.state.load(Ordering::Acquire), turn::PARKED | turn::ENDED)
    })
}
