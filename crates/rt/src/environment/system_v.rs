//! System V semaphores and message queues, POSIX message queues, too: their calls are
//! answered from the recording, and are events of the set or queue as well.
//!
//! Processes that attach a segment guard it by these, and in a replay such a call
//! waits for nothing: without an order, what one process writes there would meet
//! another too early or too late. An operation may release and acquire at once, so
//! there is an event on both sides of each: whoever was let through has its second
//! after the first of who let it through.

use super::carried::Hand;
use super::ordered;
use crate::object::{self, Cell};
use crate::outside;
use core::sync::atomic::{AtomicU64, Ordering};
use relive_sys::syscall::number::{MQ_TIMEDRECEIVE, MQ_TIMEDSEND, MSGCTL, MSGRCV, MSGSND, SEMCTL, SEMOP, SEMTIMEDOP};
use relive_sys::syscall::syscall6;

const GETALL: usize = 13;

/// What the kernel keeps by numbers of its own, each kind with its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kept {
    Set = 1,
    Queue,
    Segment,
    /// All POSIX queues: their descriptors are each process's own.
    Named,
}

/// The clock that all processes of the recording share for one of these.
pub(super) fn cell(kept: Kept, id: usize) -> &'static Cell {
    // Above what the hash of a mapping's file gives for any byte of it, as good as surely.
    const SYSTEM_V: u64 = 0x5956_0000_0000_0000;
    object::in_session(SYSTEM_V | (kept as u64) << 34 | (id as u32 as u64) << 1)
}

/// What a call is on, if it is one of these.
pub(super) const fn kept_by(number: usize) -> Option<Kept> {
    match number {
        SEMOP | SEMTIMEDOP | SEMCTL => Some(Kept::Set),
        MSGSND | MSGRCV | MSGCTL => Some(Kept::Queue),
        MQ_TIMEDSEND | MQ_TIMEDRECEIVE => Some(Kept::Named),
        _ => None,
    }
}

/// Makes a call, as two events if it is one of these.
pub(super) fn in_order(number: usize, arguments: &[usize; 6], call: impl FnOnce() -> isize) -> isize {
    let Some(kept) = kept_by(number) else { return call() };
    let id = if matches!(kept, Kept::Named) { 0 } else { arguments[0] };
    let cell = cell(kept, id);
    ordered::event(cell, Hand::Gives, 0);
    let result = call();
    // The end of a process gives back what it holds (SEM_UNDO).
    outside::may_have_waited();
    ordered::event(cell, Hand::Takes, 0);
    if result == 0 && takes_with_undo(number, arguments) {
        remember(arguments[0]);
    }
    result
}

/// The kernel has told the calling thread that a message came to a POSIX queue: it comes after who sent it.
pub fn order_of_queues() {
    ordered::event(cell(Kept::Named, 0), Hand::Takes, 0);
}

/// Sets of which this process may hold what its end gives back; 0 where there is none.
static HELD: [AtomicU64; HELD_MAX] = [const { AtomicU64::new(0) }; HELD_MAX];
const HELD_MAX: usize = 64;

/// Whether an operation that succeeded is undone when the process ends.
fn takes_with_undo(number: usize, arguments: &[usize; 6]) -> bool {
    const SEM_UNDO: u16 = 0x1000;
    /// Bytes of `struct sembuf`, and where its flags are.
    const OPERATION: usize = 6;
    const FLAGS: usize = 4;
    let [_, operations, count, ..] = *arguments;
    let flags = |index: usize| (operations + index * OPERATION + FLAGS) as *const u16;
    // SAFETY: the kernel has read so many operations there.
    matches!(number, SEMOP | SEMTIMEDOP) && (0..count).any(|index| unsafe { flags(index).read() } & SEM_UNDO != 0)
}

fn remember(id: usize) {
    let entry = u64::from(id as u32) + 1;
    for place in &HELD {
        let found = place.compare_exchange(0, entry, Ordering::AcqRel, Ordering::Acquire);
        if found.is_ok() || found == Err(entry) {
            return;
        }
    }
}

/// The process is about to end, which may let others go on.
pub(super) fn end() {
    for place in &HELD {
        match place.swap(0, Ordering::AcqRel) {
            0 => return,
            entry => ordered::event(cell(Kept::Set, entry as usize - 1), Hand::Gives, 0),
        }
    }
}

/// A fork child gives nothing back.
pub(super) fn reset_after_fork() {
    for place in &HELD {
        place.store(0, Ordering::Relaxed);
    }
}

/// Whether a call asks for the values of a set, whose number stands in no argument.
pub(super) fn asks_for_all(number: usize, arguments: &[usize; 6]) -> bool {
    number == SEMCTL && arguments[2] as u32 as usize == GETALL
}

/// How many semaphores a set has; 0 if there is none.
pub(super) fn set_size(id: usize) -> usize {
    const IPC_STAT: usize = 2;
    /// `sem_nsems` in the kernel's `struct semid64_ds`, in words.
    const COUNT: usize = 10;
    let mut told = [0usize; 13];
    // SAFETY: the kernel writes the 104 bytes of the description.
    let result = unsafe { syscall6(SEMCTL, id, 0, IPC_STAT, told.as_mut_ptr().addr(), 0, 0) };
    if result < 0 { 0 } else { told[COUNT] }
}
