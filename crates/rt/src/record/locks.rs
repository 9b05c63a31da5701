//! Events on mutexes that keep their clock in themselves, which tell whom a lock follows; and
//! those of instructions that change memory indivisibly, which do, too.
//!
//! By timestamps alone a replay makes a lock wait until all threads are behind it, as if
//! it could follow any of their events. Where the clock jumps it need not: what it follows
//! has the timestamp before. Most locks do not jump, because most follow an event of the
//! same thread, or another thread's old one. Each mutex therefore has, beside its clock,
//! the thread of its last event, and a stream tells the locks that follow another thread's
//! ([`Record::Behind`]), with how far that event is behind. What is not told waits for
//! nobody.
//!
//! Where threads take the same many mutexes at random, that would be a byte for every other
//! lock. So from the first one on that is told, those that are [`GAP_UNTOLD`] and more
//! behind are not ([`LOCKS_UNTOLD`]): any lock of which nothing is told may be such a one,
//! and waits for what is that far behind, where threads that run side by side nearly always
//! are already. When none was met for as many events as are between two check hashes
//! ([`LOCKS_MET`]), the stream says that from there on nothing untold follows another
//! thread ([`Record::Own`]).
//!
//! What an instruction changes has its clock and that thread in a table, where two objects may share them:
//! then more is told than is so, and a replay waits for a little more.
//!
//! Apart from the gate because of other objects nothing is told: their clocks are moved by threads that do not have
//! them to themselves.

use super::{commit, finish, header, prepare, quiet_recorder, recorder, try_exclusive_at};
use crate::object::{Cell, mark};
use crate::thread::{self, Thread};
use crate::writer;
use core::sync::atomic::Ordering;
use relive_order::hash::CHECK_INTERVAL;
use relive_order::{CheckHash, Kind, stamp};
use relive_trace::layout::{CHUNK_HEADER_BYTES, LOCKS_MET, LOCKS_UNTOLD};
use relive_trace::record::{GAP_UNTOLD, Record, compact_behind, compact_pair, told_gap};

/// The fast path of [`locked`]: takes the event if nothing need be told of it.
///
/// Whom a lock of many follows is hard to guess, for a processor too: so no branch asks that alone.
///
/// # Safety
/// As for [`locked`].
#[inline(always)]
pub unsafe fn try_locked(cell: *mut Cell, kind: Kind) -> bool {
    let h = header();
    if h.is_null() {
        return false;
    }
    // SAFETY: the caller owns the cell; the header is this thread's.
    unsafe {
        let clock = (*cell).clock.as_ptr();
        let (thread_clock, events, flags) = ((*h).clock, (*h).events + 1, (*h).flags);
        let other = (*cell).last.load(Ordering::Relaxed) != mark((*h).thread);
        let untold = if flags & LOCKS_UNTOLD != 0 { GAP_UNTOLD as i64 } else { i64::MAX };
        // Negative if the object is ahead: then the jump has to be told.
        let gap = thread_clock.wrapping_sub(*clock) as i64;
        if gap < if other { untold } else { 0 } || events.is_multiple_of(CHECK_INTERVAL) {
            return false;
        }
        let met = flags | (u8::from(other) * LOCKS_MET);
        if met != flags {
            (*h).flags = met;
        }
        (*cell).last.store(mark((*h).thread), Ordering::Relaxed);
        *clock = thread_clock + 1;
        (*h).hash = CheckHash((*h).hash).then(kind).0;
        (*h).clock = thread_clock + 1;
        (*h).events = events;
    }
    true
}

/// [`try_exclusive`] where the calling thread had the object's last event, too.
///
/// # Safety
/// As for [`exclusive`], for both words of the cell.
#[inline(always)]
pub unsafe fn try_own(cell: *mut Cell, kind: Kind) -> bool {
    let h = header();
    // SAFETY: the header is this thread's; the caller owns the cell.
    unsafe {
        !h.is_null()
            && (*cell).last.load(Ordering::Relaxed) == mark((*h).thread)
            && try_exclusive_at(h, (*cell).clock.as_ptr(), kind)
    }
}

/// The same for an object that is ahead by so little that the jump fits one byte of the stream.
///
/// The caller holds a lock that others wait for: what the general way through [`locked`] takes longer (30 ns) is
/// enough to let critical sections of that length meet more often, and sleep.
///
/// # Safety
/// As for [`locked`].
#[inline(always)]
pub unsafe fn try_jump(cell: *mut Cell, kind: Kind) -> bool {
    let h = header();
    if h.is_null() {
        return false;
    }
    let thread = thread::current();
    // SAFETY: the caller owns the cell; the header is this thread's. The byte lies inside the chunk, as checked.
    unsafe {
        let clock = (*cell).clock.as_ptr();
        let (seen, events) = ((*h).events, (*h).events + 1);
        let Some(byte) = compact_pair(seen - thread.stored, (*clock).wrapping_sub((*h).clock)) else { return false };
        if (*h).used >= (*h).size - CHUNK_HEADER_BYTES || events.is_multiple_of(CHECK_INTERVAL) {
            return false;
        }
        h.cast::<u8>().add((CHUNK_HEADER_BYTES + (*h).used) as usize).write(byte);
        (*h).used += 1;
        thread.stored = events;
        (*cell).last.store(mark((*h).thread), Ordering::Relaxed);
        *clock += 1;
        commit(h, *clock, kind);
    }
    true
}

/// The same for a lock that follows another thread's event, if one byte of the stream tells that.
///
/// # Safety
/// As for [`locked`].
#[inline(never)]
unsafe fn try_behind(cell: *mut Cell, kind: Kind) -> bool {
    let h = header();
    if h.is_null() {
        return false;
    }
    let thread = thread::current();
    // SAFETY: the caller owns the cell; the header is this thread's. The byte lies inside the chunk, as checked.
    unsafe {
        let clock = (*cell).clock.as_ptr();
        let (before, events) = ((*h).clock, (*h).events + 1);
        let own = mark((*h).thread);
        if *clock > before || *clock == 0 || (*cell).last.load(Ordering::Relaxed) == own {
            return false;
        }
        let Some(byte) = compact_behind((*h).events - thread.stored, before - *clock) else { return false };
        if (*h).used >= (*h).size - CHUNK_HEADER_BYTES || events.is_multiple_of(CHECK_INTERVAL) {
            return false;
        }
        h.cast::<u8>().add((CHUNK_HEADER_BYTES + (*h).used) as usize).write(byte);
        (*h).used += 1;
        thread.stored = events - 1;
        (*h).flags |= LOCKS_UNTOLD | LOCKS_MET;
        (*cell).last.store(own, Ordering::Relaxed);
        *clock = before + 1;
        commit(h, *clock, kind);
    }
    true
}

/// A lock of an object that keeps its clock in itself: [`exclusive`], and the stream tells whether it follows another
/// thread's event ([`Record::Behind`]): a replay need not wait for what does not concern it.
///
/// # Safety
/// As for [`exclusive`], for both words of the cell.
pub unsafe fn locked(cell: *mut Cell, kind: Kind) {
    // SAFETY: forwarded.
    unsafe { locked_by(recorder, cell, kind) };
}

/// [`locked`] where no handler of the program may run, because a lock is held that the handler could need.
///
/// # Safety
/// As for [`locked`].
pub unsafe fn locked_quietly(cell: *mut Cell, kind: Kind) {
    // SAFETY: forwarded.
    unsafe { locked_by(quiet_recorder, cell, kind) };
}

unsafe fn locked_by(recorder: impl FnOnce(u64) -> Option<&'static mut Thread>, cell: *mut Cell, kind: Kind) {
    // SAFETY: the caller's promise.
    unsafe {
        if try_locked(cell, kind) || try_jump(cell, kind) || try_behind(cell, kind) {
            return;
        }
        let clock = (*cell).clock.as_ptr();
        let Some(thread) = recorder(*clock) else { return };
        prepare(thread);
        let (base, own, last) = (thread.clock_base(), mark(thread.index), (*cell).last.load(Ordering::Relaxed));
        if base.max(*clock) == thread.clock() && last != own && *clock != 0 {
            tell_behind(thread, base - *clock);
        }
        (*cell).last.store(own, Ordering::Relaxed);
        let time = stamp(base, *clock).time;
        finish(thread, time, kind);
        *clock = time;
    }
}

/// Tells that the next event follows another thread's one that is `gap` behind, if that has to be told.
unsafe fn tell_behind(thread: &mut Thread, gap: u64) {
    // SAFETY: the thread's live chunk, which `append` may replace.
    unsafe {
        let untold = !thread.header.is_null() && (*thread.header).flags & LOCKS_UNTOLD != 0 && gap >= GAP_UNTOLD;
        if !untold {
            writer::append(thread, Record::Behind { gap: told_gap(gap) });
        }
        if !thread.header.is_null() {
            (*thread.header).flags |= LOCKS_UNTOLD | LOCKS_MET;
        }
    }
}

/// The calling thread has the last event of an object that keeps its clock in itself, and has it to itself.
pub fn have(cell: &Cell) {
    if let Some(thread) = thread::current_if_known() {
        cell.last.store(mark(thread.index), Ordering::Relaxed);
    }
}

/// A check hash was stored: how it goes on with what need not be told.
pub(super) fn hash_stored(thread: &mut Thread) {
    if thread.header.is_null() {
        return;
    }
    // SAFETY: the thread's live chunk.
    let flags = unsafe { (*thread.header).flags };
    let over = if flags & LOCKS_MET != 0 { LOCKS_MET } else { flags & LOCKS_UNTOLD };
    if over == LOCKS_UNTOLD {
        writer::append(thread, Record::Own);
    }
    if !thread.header.is_null() {
        // SAFETY: as above; `append` may have replaced it.
        unsafe { (*thread.header).flags &= !over };
    }
}
