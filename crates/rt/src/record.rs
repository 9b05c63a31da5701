//! The gate while recording (ROLT 1994, section 3).
//!
//! An event is taken while its effect is exclusive: after a lock was acquired,
//! before it is released. Then
//!
//! ```text
//! LC(t) = LC(o) = max(LC(t), LC(o)) + 1
//! ```
//!
//! and the thread's event count and check hash grow. All three stand in the
//! header of the thread's chunk, in the mapped trace file: there is nothing to
//! flush, and a kill at any moment leaves a trace that ends with an event whose
//! effect nobody has seen yet, or none.
//!
//! On the fast path `LC(o) <= LC(t)`: nothing is written but the header. If the
//! object is ahead, the jump is stored as a pair (steps, extra). Everything else
//! that an event may have to do first (store a run of failures, join a clock,
//! deliver a signal that was put off) raises the thread's attention word, which
//! closes the fast path, so that it asks one question only.

mod locks;

use crate::environment::generated;
use crate::object::Cell;
use crate::runtime::{self, Mode};
use crate::thread::{self, Thread};
use crate::writer;
use core::sync::atomic::{AtomicU64, Ordering};
pub use locks::{have, locked, locked_quietly, try_jump, try_locked, try_own};
use relive_order::hash::CHECK_INTERVAL;
use relive_order::kind::Family;
use relive_order::{CheckHash, Kind, stamp, stamp_two};
use relive_sys::tls;
use relive_trace::layout::ChunkHeader;
use relive_trace::record::Record;

/// Why the next event takes the slow path.
pub mod attention {
    use relive_sys::tls;

    /// A run of failures is open in the chunk header.
    pub const RUN: usize = 1;
    /// The thread joined a clock without an event.
    pub const JOINED: usize = 2;
    /// A signal waits to be delivered.
    pub const SIGNAL: usize = 4;
    /// The thread has left its start routine. If it is the last of its process it will run the exit handlers, which
    /// come after everything the others did; as nothing says when they begin, each of its events from here on does.
    pub const FINISHED: usize = 8;
    /// It has looked at the clock again and again: by its next event it may have waited for another thread (`environment/lapses.rs`).
    pub const LOOKED: usize = 16;

    /// Sets a bit of the calling thread's attention word, and closes the fast path.
    pub fn raise(bit: usize) {
        tls::set::<{ tls::ATTENTION }>(tls::get::<{ tls::ATTENTION }>() | bit);
        tls::set::<{ tls::HEADER }>(0);
    }

    /// Clears a bit of it; with the last one the fast path opens again.
    pub fn clear(bit: usize) {
        let left = tls::get::<{ tls::ATTENTION }>() & !bit;
        tls::set::<{ tls::ATTENTION }>(left);
        if left == 0 {
            super::open();
        }
    }
}

/// Opens the fast path of the calling thread, if it records and nothing asks for the slow one.
pub fn open() {
    if let Some(thread) = thread::current_if_known()
        && thread.forking.is_none()
        && tls::get::<{ tls::ATTENTION }>() == 0
        && runtime::mode() == Mode::Record
    {
        tls::set::<{ tls::HEADER }>(thread.header as usize);
    }
}

/// The calling thread's live chunk, or null if its next event can't take the fast path.
#[inline(always)]
pub fn header() -> *mut ChunkHeader {
    tls::get::<{ tls::HEADER }>() as *mut ChunkHeader
}

/// The fast path of [`exclusive`]: takes the event and returns `true`, or does nothing.
///
/// It makes no call and needs no stack: what a front stores between two locked instructions delays the second,
/// because that waits until the stores before it have drained.
///
/// # Safety
/// As for [`exclusive`].
#[inline(always)]
pub unsafe fn try_exclusive(clock: *mut u64, kind: Kind) -> bool {
    // SAFETY: the caller's promise; the header is this thread's.
    unsafe { try_exclusive_at(header(), clock, kind) }
}

#[inline(always)]
unsafe fn try_exclusive_at(h: *mut ChunkHeader, clock: *mut u64, kind: Kind) -> bool {
    if h.is_null() {
        return false;
    }
    // SAFETY: the caller owns the clock; the header is this thread's.
    unsafe {
        let (thread_clock, events) = ((*h).clock, (*h).events + 1);
        if *clock > thread_clock || events.is_multiple_of(CHECK_INTERVAL) {
            return false;
        }
        *clock = thread_clock + 1;
        (*h).hash = CheckHash((*h).hash).then(kind).0;
        (*h).clock = thread_clock + 1;
        (*h).events = events;
    }
    true
}

/// An event on an object whose clock this thread owns at this moment.
///
/// # Safety
/// `clock` must be valid, and no other thread may use it until the effect that follows.
#[inline]
pub unsafe fn exclusive(clock: *mut u64, kind: Kind) {
    if kind.family() != Family::Mutex
        && let Some(thread) = thread::current_if_known()
    {
        thread.tally[kind.family() as usize] += 1;
    }
    // SAFETY: the caller's promise.
    unsafe {
        if !try_exclusive(clock, kind) && recorder(*clock).is_some() {
            *clock = contended(*clock, kind);
        }
    }
}

/// The calling thread is at an event, which it will take quietly.
pub fn come() {
    recorder(0);
}

/// An event on an object that other threads may touch at the same moment: one compare-and-swap.
#[inline]
pub fn shared(clock: &AtomicU64, kind: Kind) {
    if recorder(clock.load(Ordering::Relaxed)).is_some() {
        shared_quietly(clock, kind);
    }
}

/// The same where no handler of the program may run, because a lock is held that the handler could need.
pub fn shared_quietly(clock: &AtomicU64, kind: Kind) {
    let Some(thread) = quiet_recorder(clock.load(Ordering::Relaxed)) else { return };
    thread.tally[kind.family() as usize] += 1;
    prepare(thread);
    let base = thread.clock_base();
    let mut seen = clock.load(Ordering::Relaxed);
    loop {
        let time = stamp(base, seen).time;
        match clock.compare_exchange_weak(seen, time, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return finish(thread, time, kind),
            Err(now) => seen = now,
        }
    }
}

/// The same for an event that joins `also`, too.
pub fn shared_quietly_joining(clock: &AtomicU64, also: u64, kind: Kind) {
    let Some(thread) = quiet_recorder(also) else { return };
    thread.join_clock(also);
    shared_quietly(clock, kind);
}

/// An event that joins `also` and touches `cell`: a wake-up (mutex and condition), a writer (readers and writers).
pub fn shared_joining(cell: &AtomicU64, also: u64, kind: Kind) {
    let Some(thread) = recorder(also) else { return };
    thread.join_clock(also);
    shared(cell, kind);
}

/// Whoever touches the object next comes after all that the calling thread has done.
pub fn raise(clock: &AtomicU64) {
    if let Some(thread) = thread::current_if_known() {
        clock.fetch_max(thread.clock_base(), Ordering::AcqRel);
    }
}

/// An event that joins `join` and only raises `clock`: readers are not ordered among themselves.
pub fn raising(join: u64, clock: &AtomicU64, kind: Kind) {
    let Some(thread) = recorder(join) else { return };
    thread.join_clock(join);
    let time = alone(kind);
    clock.fetch_max(time, Ordering::AcqRel);
}

/// An event that joins a clock and leaves nothing there.
pub fn joining(join: u64, kind: Kind) {
    if let Some(thread) = recorder(join) {
        thread.join_clock(join);
        alone(kind);
    }
}

/// One timestamp on two objects, the first of them exclusively owned.
///
/// # Safety
/// As for [`exclusive`].
pub unsafe fn exclusive_and_shared(clock: *mut u64, other: &Cell, kind: Kind) {
    // SAFETY: the caller's promise.
    unsafe {
        if recorder(*clock).is_none() {
            return;
        }
        *clock = stamp_two(0, *clock, other.clock.load(Ordering::Acquire)).time - 1;
        exclusive(clock, kind);
        other.clock.fetch_max(*clock, Ordering::AcqRel);
    }
}

/// An event on no object: it only advances the thread's clock. Returns its timestamp.
pub fn alone(kind: Kind) -> u64 {
    let mut fresh = 0;
    // SAFETY: the clock is a local of ours.
    unsafe { exclusive(&raw mut fresh, kind) };
    fresh
}

/// What order does not determine, for the calling thread to ask for at this place.
pub fn value(value: i64) {
    note(Record::Value(value));
}

/// The same as a result of its next event. No handler runs until then, whose event would be the next one.
pub fn result(value: i64) {
    note_of_event(Record::Value(value));
}

/// A record that belongs to the event that follows.
pub fn note_of_event(record: Record) {
    if let Some(thread) = recorder(0) {
        crate::deferred::hold(thread);
        prepare(thread);
        writer::append(thread, record);
    }
}

/// A failed attempt, which is no event.
pub fn failure(kind: Kind, result: i32) {
    if let Some(thread) = recorder(0) {
        writer::failure(thread, kind, result);
    }
}

/// The calling thread is at an operation of its own: signals that were put off run their handlers.
#[inline]
pub fn arrive() {
    if tls::get::<{ tls::ATTENTION }>() & attention::SIGNAL != 0
        && let Some(thread) = thread::current_if_known()
        && thread.forking.is_none()
    {
        crate::deferred::deliver_pending(thread);
    }
}

/// Any other record before the next event.
pub fn note(record: Record) {
    if let Some(thread) = recorder(0) {
        prepare(thread);
        writer::append(thread, record);
    }
}

/// The same without running handlers of signals that were put off: the call is no operation of the program that
/// every run would make.
pub fn note_quietly(record: Record) {
    if let Some(thread) = quiet_recorder(0) {
        prepare(thread);
        writer::append(thread, record);
    }
}

/// The calling thread, if it records; signals that were put off have been handled. `clock` is the object's.
#[inline]
fn recorder(clock: u64) -> Option<&'static mut Thread> {
    let thread = quiet_recorder(clock)?;
    crate::deferred::deliver_put_off(thread);
    if generated::is_owed(thread) {
        generated::pay(thread);
    }
    Some(thread)
}

/// The calling thread, if it records. Between a fork and the end of its handlers the fast path is closed,
/// so that a child never writes into its parent's chunk before it has its own.
#[inline]
fn quiet_recorder(clock: u64) -> Option<&'static mut Thread> {
    let Some(thread) = thread::current_if_known() else {
        crate::stranger::met(clock);
        return None;
    };
    if thread.forking.is_some() {
        crate::process::settle_fork(thread);
    }
    (!thread.header.is_null()).then_some(thread)
}

#[inline(always)]
unsafe fn commit(h: *mut ChunkHeader, time: u64, kind: Kind) {
    // SAFETY: the caller's live chunk.
    unsafe {
        (*h).hash = CheckHash((*h).hash).then(kind).0;
        (*h).clock = time;
        let events = (*h).events + 1;
        (*h).events = events;
        if events.is_multiple_of(CHECK_INTERVAL) {
            store_hash();
        }
    }
}

#[cold]
#[inline(never)]
fn store_hash() {
    let thread = thread::current();
    // SAFETY: the thread's live chunk; `commit` has just written it.
    let hash = unsafe { (*thread.header).hash };
    writer::append(thread, Record::Hash(hash));
    locks::hash_stored(thread);
}

#[inline(never)]
fn contended(object_clock: u64, kind: Kind) -> u64 {
    let thread = thread::current();
    prepare(thread);
    let time = stamp(thread.clock_base(), object_clock).time;
    finish(thread, time, kind);
    time
}

/// Does what the attention word asks for, before an event or a record.
fn prepare(thread: &mut Thread) {
    if tls::get::<{ tls::ATTENTION }>() & attention::RUN != 0 {
        writer::close_run(thread);
    }
    let looked = tls::get::<{ tls::ATTENTION }>() & attention::LOOKED != 0;
    if looked {
        attention::clear(attention::LOOKED);
    }
    if thread.finished || looked {
        thread.join_clock(thread::clock_of_all());
    }
}

fn finish(thread: &mut Thread, time: u64, kind: Kind) {
    if thread.joined != 0 {
        thread.joined = 0;
        attention::clear(attention::JOINED);
    }
    if thread.header.is_null() {
        return;
    }
    // SAFETY: the thread's live chunk, which is not null.
    let extra = time - unsafe { (*thread.header).clock } - 1;
    if extra > 0 {
        writer::append(thread, Record::Pair { extra });
    }
    if !thread.header.is_null() {
        // SAFETY: the thread's live chunk; `append` may have replaced it.
        unsafe { commit(thread.header, time, kind) };
    }
}
