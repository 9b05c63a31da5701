//! What each kind of event means for happened-before: a closed table.
//!
//! Apart because a timestamp that is larger means nothing here: program order within a
//! total order is no synchronisation. Edges come from what a primitive promises.

use crate::environment::carried::Hand;
use crate::object::Cell;
use crate::object::{Internal, internal, is_internal};
use crate::thread;
use relive_order::Kind;

/// What an event does to its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    /// Knows from here on what was known at each release.
    Acquire,
    /// As [`Edge::Acquire`], but not of what other readers left.
    AcquireShared,
    /// As [`Edge::Acquire`], and is the lock's writer until it is released.
    AcquireAsWriter,
    /// Lets others know.
    Release,
    /// A release of a lock that is held for reading or for writing.
    ReleaseEither,
    /// Both, in this order.
    Transfer,
    /// Arrives at a barrier.
    Arrive,
    /// Leaves a barrier.
    Depart,
    /// Orders nothing, but memory may change hands behind it: what the thread did is held against the others first.
    Flush,
    /// Orders nothing.
    Nothing,
}

/// The table.
pub(super) fn of(kind: Kind, cell: Option<&Cell>) -> Edge {
    match kind {
        // Signals that were sent or delivered, and cancellations, are on one object of the process.
        Kind::Lock
        | Kind::SpinLock
        | Kind::Wake
        | Kind::SemWait
        | Kind::StreamLock
        | Kind::Deliver
        | Kind::ThreadExit => Edge::Acquire,
        Kind::ReadLock => Edge::AcquireShared,
        Kind::WriteLock => Edge::AcquireAsWriter,
        Kind::Unlock
        | Kind::SpinUnlock
        | Kind::WaitRelease
        | Kind::Signal
        | Kind::Broadcast
        | Kind::Post
        | Kind::OnceDone
        | Kind::StreamUnlock
        | Kind::Cancel
        | Kind::Kill => Edge::Release,
        Kind::RwUnlock => Edge::ReleaseEither,
        Kind::Arrive => Edge::Arrive,
        Kind::Depart => Edge::Depart,
        Kind::LibcCall => match cell {
            None => Edge::Nothing,
            // Batches of blocks go from one thread to another, and addresses from one mapping to the next.
            Some(cell) if [Internal::Heap, Internal::Memory].iter().any(|&of| core::ptr::eq(cell, internal(of))) => {
                Edge::Flush
            }
            // What was taken from a descriptor may be a signal.
            Some(cell) if core::ptr::eq(cell, internal(Internal::Signals)) => Edge::Acquire,
            // libc's own locks around its own state promise nothing to the program.
            Some(cell) if is_internal(cell) => Edge::Nothing,
            // Descriptors, files, semaphores and queues: what one gives another takes.
            Some(_) => match thread::current_if_known().and_then(|thread| thread.hand) {
                Some(Hand::Gives) => Edge::Release,
                Some(Hand::Takes) => Edge::Acquire,
                None => Edge::Transfer,
            },
        },
        // Sections are ours: threads are created, and libraries opened, in turn, which promises nothing to the program.
        // Creations and joins are told apart from their events, with the thread that they name.
        // What an instruction changed indivisibly is a synchronisation variable by its bytes.
        Kind::LibcEnter | Kind::LibcLeave | Kind::Create | Kind::Join | Kind::Fork | Kind::Spawn | Kind::Atomic => {
            Edge::Nothing
        }
        // What the thread did last counts as well: nothing of it comes behind.
        Kind::Exit => Edge::Flush,
    }
}

/// Whether such events release something, whatever their objects, and acquire nothing.
pub(super) fn only_releases(kind: Kind) -> bool {
    matches!(of(kind, None), Edge::Release | Edge::ReleaseEither | Edge::Arrive)
}

#[cfg(test)]
mod tests {
    use super::{Edge, of};
    use crate::object::{Internal, cell, internal};
    use relive_order::Kind;

    #[test]
    fn what_libc_locks_for_itself_orders_nothing_and_what_programs_lock_does() {
        assert_eq!(of(Kind::LibcCall, Some(internal(Internal::Random))), Edge::Nothing);
        assert_eq!(of(Kind::LibcCall, Some(internal(Internal::Heap))), Edge::Flush);
        assert_eq!(of(Kind::LibcCall, Some(cell(0x7000_1234))), Edge::Transfer);
        assert_eq!(of(Kind::Lock, Some(cell(0x7000_1234))), Edge::Acquire);
    }
}
