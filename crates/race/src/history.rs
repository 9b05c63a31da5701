//! What memory remembers of finished segments, and the races that this shows.
//!
//! For each line of 64 bytes: entries of (segment, bytes read, bytes written). A
//! segment is held against the entries of its lines, becomes an entry itself, and
//! takes off others what it covers: bytes of an entry go when a later access that
//! happened after it covers them, where a write covers reads and writes and a read
//! covers reads. No race gets lost by that: what is unordered with the covered
//! access and comes later is unordered with the covering one, too, and at least as
//! much of a conflict with it.
//!
//! Entries lie in pages of 64 lines, so that a segment that walks over memory looks
//! up one in 64 of its lines; a page takes 1.5 KiB for 4 KiB of the program's. Most
//! lines have one entry, which lies in the page itself; the others have a list
//! (`spill.rs`).
//!
//! Apart from the clocks because it is what runs in parallel: each shard of memory
//! has a history of its own, under a lock of its own.

mod entry;
mod ranges;
mod spill;

use crate::clock::{Clock, Floor};
use crate::finding::Race;
use crate::lines::{Line, PAGE_LINES};
use crate::mix::Table;
use alloc::boxed::Box;
use entry::Entry;
use spill::Spill;

/// What one shard of memory remembers.
///
/// Segments must come in an order that agrees with happened-before: a thread's
/// lines are handed over before it releases anything after them.
#[derive(Debug, Default)]
pub struct History {
    pages: Table<Box<Page>>,
    spill: Spill,
    /// What all threads knew when this was last told.
    floor: Floor,
}

type Page = [Entry; PAGE_LINES as usize];

impl History {
    /// A history that remembers nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Holds the lines of a segment against what is remembered, tells `report` the races, and remembers the segment.
    ///
    /// Lines may come in any order, and those of one segment in several calls; neighbours that follow one another are
    /// fastest. They must all be of this shard.
    pub fn check(&mut self, clock: &Clock, lines: &[Line], report: &mut impl FnMut(Race)) {
        let mut rest = lines;
        while let Some(first) = rest.first() {
            let number = first.number / PAGE_LINES;
            let page = self.pages.entry(number).or_insert_with(|| Box::new([Entry::EMPTY; PAGE_LINES as usize]));
            while let Some((line, later)) = rest.split_first() {
                if line.number / PAGE_LINES != number {
                    break;
                }
                let newer = Entry::access(clock.epoch(), line.read, line.written);
                let slot = &mut page[(line.number % PAGE_LINES) as usize];
                let with = With { newer, clock, floor: &self.floor, line: line.number };
                visit(slot, &mut self.spill, &with, report);
                rest = later;
            }
        }
    }

    /// Entries that `floor` knows go from now on where their line is visited: a line of which many threads use a part
    /// each, under a lock each, would have an entry for each part and thread, and every visit walks over all.
    pub fn raise(&mut self, floor: &Floor) {
        self.floor.clone_from(floor);
    }

    /// Forgets what cannot race any more, by what all threads know. Freed bytes stay freed.
    pub fn sweep(&mut self, floor: &Floor) {
        let Self { pages, spill, .. } = self;
        let keep = |entry: &mut Entry| entry.is_free() || !floor.knows(entry.epoch());
        pages.retain(|_, page| {
            let mut used = false;
            for slot in page.iter_mut() {
                if slot.is_spilled() {
                    *slot = spill.retain(slot, keep);
                } else if !slot.is_empty() && !keep(slot) {
                    *slot = Entry::EMPTY;
                }
                used |= !slot.is_empty();
            }
            used
        });
        pages.shrink_to_fit();
        spill.trim();
    }

    /// Bytes of memory in use.
    pub fn bytes(&self) -> usize {
        self.pages.len() * size_of::<Page>() + self.pages.allocation_size() + self.spill.bytes()
    }
}

/// An access of a segment to a line.
#[derive(Clone, Copy)]
struct With<'a> {
    newer: Entry,
    clock: &'a Clock,
    floor: &'a Floor,
    line: u64,
}

impl With<'_> {
    /// Holds the access against what is remembered of another one. Whether something of that stays.
    #[inline]
    fn meets(&self, older: &mut Entry, report: &mut impl FnMut(Race)) -> bool {
        if !older.is_free() && self.floor.knows(older.epoch()) {
            return false;
        }
        older.meet(&self.newer, self.clock, self.line, report);
        !older.is_gone()
    }
}

/// Holds an access against what a line remembers, and remembers it.
#[inline]
fn visit(slot: &mut Entry, spill: &mut Spill, with: &With<'_>, report: &mut impl FnMut(Race)) {
    let newer = with.newer;
    if newer.is_gone() {
        return;
    }
    if slot.is_empty() {
        *slot = newer;
    } else if slot.is_spilled() {
        visit_list(slot, spill, with, report);
    } else {
        let mut older = *slot;
        let mut joined = newer;
        if !with.meets(&mut older, report) || joined.absorb(&older) {
            *slot = joined;
        } else {
            *slot = spill.pair(older, newer);
        }
    }
}

fn visit_list(slot: &mut Entry, spill: &mut Spill, with: &With<'_>, report: &mut impl FnMut(Race)) {
    let (place, length) = slot.list();
    let chunk = spill.chunk(place);
    let (mut kept, mut joined) = (0, with.newer);
    for index in 0..length.min(chunk.len()) {
        let older = &mut chunk[index];
        if with.meets(older, report) && !joined.absorb(older) {
            if kept != index {
                chunk[kept] = chunk[index];
            }
            kept += 1;
        }
    }
    *slot = if kept == 0 {
        spill.give_back(place);
        joined
    } else if kept < chunk.len() {
        chunk[kept] = joined;
        Entry::spilled(place, kept + 1)
    } else {
        spill.grow(place, joined)
    };
}
