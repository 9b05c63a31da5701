//! What memory remembers of finished segments, and the races that this shows.
//!
//! For each line of 64 bytes: entries of (segment, bytes read, bytes written). A
//! segment is held against the entries of its lines, becomes an entry itself, and
//! takes off others what it covers: bytes of an entry go when a later access that
//! happened after it covers them, where a write covers reads and writes and a read
//! covers reads. No race gets lost by that: what is unordered with the covered
//! access and comes later is unordered with the covering one, too, and at least as
//! much of a conflict with it. Entries go as well once all running threads know their
//! segment ([`History::raise`]): without that a line that one thread writes and others
//! read would have two entries at least.
//!
//! A line's entries stand in a cell (`cell.rs`), and a line's number is the number of
//! its cell, modulo the size of the memory that the caller gave: to find one costs
//! nothing, and its caller can fetch it long before ([`Host::prefetch`]). What the
//! program has touched takes as much once more; a cell is a line of the cache, so that
//! it is one miss at most. It has room for two entries; the others are in a list
//! (`lists.rs`).
//!
//! Lines that are as far apart as the memory is large meet in one cell: it belongs to
//! the first of them for good, the others look further.
//!
//! What a thread reads in one segment after the other comes here once (`lasting.rs`).
//!
//! Threads may check at the same time: each cell has a lock in it. Nobody waits for
//! another within one but for a list, and for what `report` does.
//!
//! Apart from the clocks because it is what runs in parallel.

mod cell;
mod entry;
mod lasting;
mod lists;
mod memory;
mod ranges;
mod untouched;

pub use cell::Cell;
pub use entry::Slot;
pub use lasting::{Lasting, Often, Open, Reads};
pub use memory::{Host, Memory, STATE_WORDS};

use memory::AWAY;

use crate::clock::{Clock, Floor};
use crate::epoch::Epoch;
use crate::finding::Race;
use crate::lines::Line;
use cell::{Held, INLINE};
use core::sync::atomic::Ordering::Relaxed;
use entry::Entry;
use lists::{Lists, capacity};
use untouched::Untouched;

/// Cells that are fetched ahead of the one that is looked at.
const AHEAD: usize = 8;
/// Likewise the list of a cell that has one: the cell must be there by then.
const LIST_AHEAD: usize = 4;
const _: () = assert!(LIST_AHEAD < AHEAD);

/// What memory remembers.
///
/// Segments must come in an order that agrees with happened-before: a thread's
/// lines are handed over before it releases anything after them.
#[derive(Debug)]
pub struct History<'m, H> {
    memory: Memory<'m>,
    lists: Lists<'m>,
    untouched: Untouched,
    lasting: Lasting,
    host: H,
}

/// Whether reads of a line may last from here on.
#[derive(Debug)]
enum Lasts<'r> {
    Never,
    /// If the thread has read the line often enough.
    Perhaps(&'r mut Reads),
    /// They do already.
    Already,
}

impl<'m, H: Host> History<'m, H> {
    /// A history in `memory`, all of which is zero.
    ///
    /// # Panics
    /// If its parts do not fit together ([`Memory`]).
    pub fn new(memory: Memory<'m>, host: H) -> Self {
        memory.assert_fits();
        let lists = Lists::new(&memory.state[AWAY + 1..], memory.lists);
        Self { memory, lists, untouched: Untouched::default(), lasting: Lasting::default(), host }
    }

    /// Holds the lines of a segment against what is remembered, tells `report` the races, and remembers the segment.
    ///
    /// Lines may come in any order, and those of one segment in several calls. `report` must not call the history.
    pub fn check(&self, clock: &Clock, lines: &[Line], report: &mut impl FnMut(Race)) {
        self.check_each(clock, lines, None, report);
    }

    /// The same for a thread whose reads may last: those that begin to are in [`Reads::begun`], and need not be told of
    /// again until they are closed or ended.
    pub fn check_reads(&self, clock: &Clock, lines: &[Line], reads: &mut Reads, report: &mut impl FnMut(Race)) {
        self.check_each(clock, lines, Some(reads), report);
    }

    /// A segment reads further bytes of a line, and its thread has reads of the line that last: of those bytes, too.
    pub fn check_more(&self, clock: &Clock, more: Open, reads: &mut Reads, report: &mut impl FnMut(Race)) {
        let newer = Entry::access(clock.epoch(), more.bytes, 0);
        self.visit(clock, more.line, newer, &mut Lasts::Already, report);
        reads.go_on(more);
    }

    /// The reads that last.
    pub fn lasting(&self) -> &Lasting {
        &self.lasting
    }

    fn check_each(&self, clock: &Clock, lines: &[Line], reads: Option<&mut Reads>, report: &mut impl FnMut(Race)) {
        let mut lasts = reads.map_or(Lasts::Never, Lasts::Perhaps);
        for line in lines.iter().take(AHEAD) {
            self.host.prefetch(self.memory.home(line.number));
        }
        for (index, line) in lines.iter().enumerate() {
            if let Some(later) = lines.get(index + AHEAD) {
                self.host.prefetch(self.memory.home(later.number));
            }
            if let Some(soon) = lines.get(index + LIST_AHEAD)
                && let Some(list) = self.memory.home(soon.number).list_now()
            {
                self.host.prefetch(self.lists.entry(list, 0));
            }
            let newer = Entry::access(clock.epoch(), line.read, line.written);
            self.visit(clock, line.number, newer, &mut lasts, report);
        }
    }

    /// What all running threads know by now. Entries that this knows go from now on where their line is visited; freed
    /// bytes stay freed.
    ///
    /// Each segment that was not yet handed over must know it: that of each running thread does.
    pub fn raise(&self, floor: &Floor) {
        for (place, &time) in self.memory.floor.iter().zip(&floor.0) {
            if place.load(Relaxed) < time {
                place.store(time, Relaxed);
            }
        }
    }

    /// Bytes of memory in use.
    pub fn bytes(&self) -> usize {
        self.memory.used_bytes() + self.lists.used_bytes()
    }

    /// Holds an access against what its line remembers, and remembers it.
    #[inline]
    fn visit(&self, clock: &Clock, line: u64, newer: Entry, lasts: &mut Lasts<'_>, report: &mut impl FnMut(Race)) {
        if newer.is_gone() {
            return;
        }
        let mut cell = self.memory.claim(line, &self.untouched, &self.host);
        if newer.written != 0 {
            if cell.note_write() {
                let bytes = (newer.written, newer.is_free());
                let some = self.lasting.written(clock, line, bytes, |epoch| self.memory.all_know(epoch));
                cell.set_lasting(some);
            }
        } else {
            self.may_last(clock.epoch(), line, newer.read, lasts, &mut cell);
        }
        let is_known = |old: Entry| !old.is_free() && self.memory.all_know(old.epoch());
        let is_covered = |old: Entry| old.is_covered_by(newer) && clock.knows(old.epoch());
        if !cell.replace(newer, |old| is_covered(old) || is_known(old), |epoch| clock.knows(epoch)) {
            self.visit_all(clock, line, newer, cell, report);
        }
    }

    /// A segment reads a line and writes none of it: its thread's reads may last from here on.
    #[inline]
    fn may_last(&self, segment: Epoch, line: u64, bytes: u64, lasts: &mut Lasts<'_>, cell: &mut Held<'_>) {
        let open = Open { line, bytes };
        match lasts {
            Lasts::Never => {}
            Lasts::Perhaps(reads) => {
                if reads.lasts(line, segment.time(), cell.writes())
                    && !self.is_freed(cell, bytes)
                    && self.lasting.begin(segment.thread(), open, |epoch| self.memory.all_know(epoch))
                {
                    cell.set_lasting(true);
                    reads.begin(open);
                }
            }
            Lasts::Already => {
                if self.is_freed(cell, bytes) {
                    self.lasting.doubt(line);
                }
                self.lasting.go_on(segment.thread(), open);
                cell.set_lasting(true);
            }
        }
    }

    /// Whether any of these bytes were given back. What reads them then does so once without knowing of it, and another time
    /// knowing, which are two faults.
    fn is_freed(&self, cell: &mut Held<'_>, bytes: u64) -> bool {
        (0..cell.count())
            .map(|index| self.entry(cell, index).load())
            .any(|old| old.is_free() && old.written & bytes != 0)
    }

    /// The same, whatever the line remembers. By itself, so that what is simple is done in registers.
    #[inline(never)]
    fn visit_all(&self, clock: &Clock, line: u64, newer: Entry, mut cell: Held<'m>, report: &mut impl FnMut(Race)) {
        let cell = &mut cell;
        let (mut count, mut place, mut joined) = (cell.count(), None, newer);
        let mut index = 0;
        while index < count {
            let slot = self.entry(cell, index);
            let before = slot.load();
            let older = before.meet(newer, clock, line, report);
            let goes = older.is_gone() || !older.is_free() && self.memory.all_know(older.epoch());
            if !goes && !older.is_of_same(joined) {
                if older != before {
                    slot.store(older);
                }
                index += 1;
                continue;
            }
            if !goes {
                joined = joined.with(older);
            }
            if place.is_none() {
                place = Some(index);
            } else {
                // The last one comes here, and is looked at next.
                count -= 1;
                slot.store(self.entry(cell, count).load());
                continue;
            }
            index += 1;
        }
        if let Some(place) = place {
            self.entry(cell, place).store(joined);
            self.keep(cell, count);
        } else {
            self.push(cell, count, joined);
        }
    }

    /// Makes an entry the one behind the first `count`, which are all.
    #[inline]
    fn push(&self, cell: &mut Held<'_>, count: usize, entry: Entry) {
        if count >= INLINE {
            self.make_room(cell, count);
        }
        self.entry(cell, count).store(entry);
        self.keep(cell, count + 1);
    }

    #[cold]
    fn make_room(&self, cell: &mut Held<'_>, count: usize) {
        let list = cell.list();
        if list.is_some_and(|list| count - INLINE < capacity(list.class)) {
            return;
        }
        let larger = self.lists.take(list.map_or(0, |list| list.class + 1), &self.host);
        if let Some(list) = list {
            for index in 0..count - INLINE {
                self.lists.entry(larger, index).store(self.lists.entry(list, index).load());
            }
            self.lists.give_back(list, &self.host);
        }
        cell.set_list(Some(larger));
    }

    /// Forgets all but the first `count` entries.
    #[inline]
    fn keep(&self, cell: &mut Held<'_>, count: usize) {
        cell.set_count(count);
        // A line that often has a third entry keeps the room for it, until it is down to one.
        if count <= 1
            && let Some(list) = cell.list()
        {
            cell.set_list(None);
            self.lists.give_back(list, &self.host);
        }
    }

    #[inline]
    fn entry<'s>(&'s self, cell: &Held<'s>, index: usize) -> &'s entry::Slot {
        match index.checked_sub(INLINE) {
            None => cell.inline(index),
            Some(further) => self.lists.entry(cell.list().expect("more than two entries have a list"), further),
        }
    }
}
