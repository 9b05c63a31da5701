//! The level of atomics: each instruction that changes memory indivisibly is an event.
//!
//! Locks and counters that a program makes itself, without a library, are such instructions.
//! In code that is mapped from files they are changed to run between two calls
//! (`relive_sys::atomics`). As with every event the timestamp is taken while the effect is
//! exclusive: in a recording a lock is held from the one call to the other, which goes by the
//! address of what the instruction changes, and guards the clock. In a replay the first call
//! waits for the turn, the second completes the event. Accesses that were learnt to race are
//! treated alike.
//!
//! What processes share is one object for all of them: its lock and clock lie in the session's memory
//! (`visible.rs`), and who is killed between the two calls leaves the lock to the next one.
//!
//! libc and its loader are left alone: what they change so is their own, and their functions
//! are events as wholes. So is code that a process makes itself, because nobody knows when it
//! is complete.

mod declared;

use super::{taking_part, visible};
use crate::object::{self, Cell};
use crate::races;
use crate::record;
use crate::replay;
use crate::report;
use crate::runtime::{self, Mode};
use crate::thread;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::Ordering;
use relive_order::{Family, Kind};
use relive_sys::atomics::{self, Held, Saved, Site};
use relive_sys::frames::{File, Found, Known};
use relive_sys::outside::is_libc;
use relive_sys::{aside, syscall, tls};
use relive_trace::accesses::key;
use relive_trace::control::{ACCESSES_MAX, flag};

/// What lies in one piece of so many bytes is one object. Those that reach from one into the next are ordered by the first:
/// pieces as long as lines of the cache are crossed by few accesses, and what lies in one line is handed over as a whole
/// anyway.
const OBJECT_BYTES: usize = 64;
const CLOCKS: usize = 1 << 12;

/// Clocks of a recording, and whose the last event was, by a hash of the object's address; to share one only adds order.
static TABLE: [Held<Cell>; CLOCKS] = [const { Held::new(Cell::new()) }; CLOCKS];

/// What a thread is in.
#[derive(Debug)]
pub(crate) struct Within {
    /// How often in a row it has come to a load by which it waits, and how many events it had then.
    waited: (u32, u64),
    /// In a replay: what the instruction changes.
    object: Option<usize>,
    /// Where races are looked for: the instruction's place, its bytes, and the address.
    access: Option<(usize, &'static [u8], usize)>,
    /// The word at which it waits in the kernel, or wakes others.
    pub(super) word: Option<usize>,
}

impl Within {
    pub(crate) const NOTHING: Self = Self { waited: (0, 0), object: None, access: None, word: None };
}

/// Whether these instructions are events.
pub(super) fn are_ordered() -> bool {
    runtime::has_flag(flag::ATOMICS)
}

/// Changes those in the code at `range`, which shows `file` from `offset` on, if they are events.
///
/// # Safety
/// As for [`atomics::change`].
pub(super) unsafe fn change(range: &Range<usize>, file: &File, offset: usize) {
    let is_own = range.contains(&(enter as *const () as usize));
    if !are_ordered() || is_own || is_libc(file.descriptor()) {
        return;
    }
    let range = &file.shown_in(range, offset);
    let mut known = Known::of(file);
    let Some(code) = known.bytes().get(offset..offset + range.len()) else { return };
    let ordered = ordered(known.bytes(), file.descriptor(), offset..offset + code.len());
    // What is ordered besides is part of the name.
    let key = syscall::file_stat(file.descriptor())
        .map(|stat| ordered.iter().fold(stat.part(range.len(), offset), |key, &at| syscall::name_with(key, at as u64)));
    let sites = key.and_then(|key| recall(key, code)).unwrap_or_else(|| {
        let sites = find(code, offset, &mut known, &ordered);
        if let Some(key) = key {
            remember(key, &sites);
        }
        sites
    });
    // SAFETY: the caller's promise.
    let changed =
        unsafe { atomics::change(range.start, code, &sites, runtime::has_flag(flag::DEBUGGER), [enter, leave]) };
    if changed.broken > 0 {
        report::line(format_args!(
            "breakpoints stand at instructions that are to be ordered, and so are not ({}): set them one line further",
            changed.broken
        ));
    }
}

/// The instructions in this part of a file, which begins at an offset of it, and how each can be changed.
fn find(code: &[u8], offset: usize, known: &mut Known<'_>, ordered: &[usize]) -> Vec<Site> {
    let mut sites: Vec<Site> = Vec::new();
    atomics::find(code, offset, known, |site| sites.push(site));
    if !ordered.is_empty() {
        atomics::at(code, offset, known, ordered.iter().copied(), |site| sites.push(site));
        sites.sort_unstable_by_key(|site| site.place);
        sites.dedup_by_key(|site| site.place);
    }
    atomics::join(&mut sites);
    let is_none = |at| known.with_opcode(offset + at) == Found::Nothing;
    let kept = atomics::settle(code, &mut sites, is_none);
    sites.truncate(kept);
    sites
}

/// What another process found, of this session or an earlier one.
fn recall(key: u64, code: &[u8]) -> Option<Vec<Site>> {
    let words = runtime::session().indivisible.recall(key)?;
    let mut sites = Vec::with_capacity(words.len());
    let all = atomics::unpack(words.iter().map(|word| word.load(Ordering::Relaxed)), code, |site| sites.push(site));
    all.then_some(sites)
}

fn remember(key: u64, sites: &[Site]) {
    let mut words = Vec::with_capacity(sites.len());
    if atomics::packed(sites, |word| words.push(word)) {
        runtime::session().indivisible.remember(key, words.into_iter());
    }
}

/// The accesses of a file that were learnt to race, or are declared to be atomic, by their offsets in this part of it, in
/// ascending order.
fn ordered(file: &[u8], descriptor: u32, part: Range<usize>) -> Vec<usize> {
    const BITS: usize = u64::BITS as usize;
    let session = &runtime::session().accesses;
    let all = &session.list[..(session.count as usize).min(ACCESSES_MAX)];
    let key = key(file.len() as u64, file);
    let from = |at: usize| all.partition_point(|&known| known < [key, at as u64]);
    let here = from(part.start)..from(part.end);
    for index in here.clone() {
        session.met[index / BITS].fetch_or(1 << (index % BITS), Ordering::Relaxed);
    }
    let mut found: Vec<usize> = all[here].iter().map(|&[_, at]| at as usize - part.start).collect();
    let mut is_sorted = true;
    declared::each(key, descriptor, |at| {
        if part.contains(&(at as usize)) {
            found.push(at as usize - part.start);
            is_sorted = false;
        }
    });
    if !is_sorted {
        found.sort_unstable();
        found.dedup();
    }
    found
}

/// Other memory is there from now on, or none.
pub(super) fn forget(range: &Range<usize>) {
    atomics::forget(range);
}

fn clock_of(object: usize) -> usize {
    slot_of(object as u64, CLOCKS)
}

/// One of `count` slots, a power of two.
const fn slot_of(object: u64, count: usize) -> usize {
    let hash = (object / OBJECT_BYTES as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (hash >> (u64::BITS - count.trailing_zeros())) as usize
}

/// Before the instruction: aside, because a recording and a replay do different things.
unsafe extern "C" fn enter(saved: *mut Saved) {
    // SAFETY: the routine's registers.
    aside::with(|| come_to(unsafe { &*saved }));
}

fn come_to(saved: &Saved) {
    if atomics::spins(saved) && runtime::mode() == Mode::Record {
        spin();
    }
    begin(atomics::operand(saved), || atomics::place(saved));
    if races::follow_hands()
        && let Some(thread) = taking_part()
    {
        thread.within.access = Some((atomics::place(saved), atomics::code(saved), atomics::operand(saved)));
    }
}

/// The thread looks whether another one has stored. If it does so again and again, it leaves the lock, and in the end the
/// processor, to that one for a while.
fn spin() {
    const BRIEFLY: u32 = 16;
    const LONG: u32 = 1024;
    let Some(thread) = taking_part() else { return };
    let (times, events) = thread.within.waited;
    let now = thread.events();
    let times = if now == events + 1 { times.saturating_add(1) } else { 0 };
    thread.within.waited = (times, now);
    for _ in 0..(times / BRIEFLY).min(BRIEFLY) {
        core::hint::spin_loop();
    }
    if times > LONG {
        syscall::sched_yield();
    }
}

/// What threads hand over by a word that they wait at in the kernel, of which the code at `place` has asked for, or is about
/// to.
pub(super) fn word(address: usize, place: usize) {
    if are_ordered() {
        begin(address, || place);
        complete();
    }
}

fn begin(address: usize, place: impl FnOnce() -> usize) {
    tls::set::<{ tls::HELD }>(0);
    let Some(thread) = taking_part() else { return };
    let object = address & !(OBJECT_BYTES - 1);
    if runtime::mode() == Mode::Replay {
        replay::enter_told(Kind::Atomic, place());
        thread.within.object = Some(object);
        return;
    }
    if record::header().is_null() {
        record::come();
    }
    thread.tally[Family::Atomic as usize] += 1;
    let (held, cell) = match visible::place(object) {
        None => (&TABLE[clock_of(object)], TABLE[clock_of(object)].take()),
        Some(place) => (line(place), line(place).take_among_processes(thread.tid)),
    };
    // SAFETY: it is held up to the effect's end.
    unsafe { record::locked_quietly(cell, Kind::Atomic) };
    tls::set::<{ tls::HELD }>(core::ptr::from_ref(held).addr());
}

/// Behind it, where no lock is held. Where there is a stack aside, this runs there.
unsafe extern "C" fn leave(_: *mut Saved) {
    complete();
}

fn complete() {
    let held = tls::get::<{ tls::HELD }>() as *const Held<Cell>;
    // SAFETY: null, or one of the table.
    if let Some(held) = unsafe { held.as_ref() } {
        tls::set::<{ tls::HELD }>(0);
        // SAFETY: this thread has taken it, and has not come to where it is freed by itself.
        unsafe { held.free() };
    } else if let Some(thread) = thread::current_if_known()
        && let Some(object) = thread.within.object.take()
    {
        // Still in its turn.
        if let Some((place, code, address)) = thread.within.access.take() {
            races::hands(place, code, address);
        }
        replay::leave(Kind::Atomic, &[cell(object)], false);
    }
}

/// The clock of an object in a replay. Objects share one that did so in the recording, and no others: what it says of those
/// that do not, a replay may come to in another order, and would learn that one.
fn cell(object: usize) -> &'static Cell {
    let held = || visible::place(object).map_or(&TABLE[clock_of(object)], line);
    // SAFETY: only recordings take them.
    object::exactly(object).unwrap_or_else(|| unsafe { held().unguarded() })
}

/// What orders instructions at this place of what processes share.
fn line(place: u64) -> &'static Held<Cell> {
    let lines = &runtime::session().lines;
    let found = &lines[slot_of(place, lines.len())];
    // SAFETY: such a lock is a word and a Cell behind it, which stand so in the line (checked below), which lasts as
    // long as the session's memory; of both, zeros are the first values.
    unsafe { &*core::ptr::from_ref(found).cast::<Held<Cell>>() }
}

const _: () = {
    use core::mem::offset_of;
    use relive_trace::control::SharedLine;
    assert!(size_of::<SharedLine>() == size_of::<Held<Cell>>() && align_of::<SharedLine>() == align_of::<Held<Cell>>());
    assert!(offset_of!(SharedLine, holder) == 0 && offset_of!(SharedLine, clock) == Held::<Cell>::VALUE_AT);
    assert!(offset_of!(SharedLine, last) == offset_of!(SharedLine, clock) + offset_of!(Cell, last));
};

/// A thread has met a fault at `place`: the instruction that it is in. If that is one of these, its event is over.
pub(super) fn stopped(place: usize) -> Option<usize> {
    let original = atomics::original(place)?;
    // Of those that were moved with it nothing is held.
    if atomics::is_ordered(place) {
        if let Some(thread) = thread::current_if_known() {
            thread.within.access = None;
        }
        complete();
    }
    Some(original)
}

/// Frees what threads of the parent were in.
///
/// # Safety
/// Only in a fork child while it has one thread, which is in no such instruction.
pub(crate) unsafe fn reset_after_fork() {
    if are_ordered() {
        // Most were never used, and need no memory for that.
        for lock in TABLE.iter().filter(|lock| lock.is_taken()) {
            // SAFETY: the caller's promise.
            unsafe { lock.free() };
        }
    }
}
