//! Finds blocks: by where they begin in the program, and by an address of the cache.
//!
//! Apart from the cache, which only says what a block is.

use super::{Cache, NONE, Piece};
use crate::area::{Area, Context};
use crate::arena::{Arena, Array};
use crate::state::State;
use crate::translate::Way;
use core::ops::Range;

/// Odd, and near 2^64 divided by the golden ratio (Knuth, *The Art of Computer Programming* 3, 6.4).
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
/// Bytes of the program to a place, as a power of two: few blocks begin closer to each other.
const PLACE_BITS: u32 = 2;
/// A place that was never used.
const FREE: u32 = 0;
/// A place whose block is gone.
const GONE: u32 = u32::MAX;

/// Blocks by where they begin: open addressing, each place a block's number plus one.
///
/// What is near in the program is near here: the index is large and touched at each way out of a block, so places
/// all over it would cost a page each.
#[derive(Debug)]
pub(super) struct Index(Array<u32>);

impl Index {
    const fn places(blocks: usize) -> usize {
        (blocks * 2).next_power_of_two()
    }

    /// Memory for so many blocks.
    pub(super) const fn bytes(blocks: usize) -> usize {
        Self::places(blocks) * size_of::<u32>()
    }

    pub(super) fn new(arena: &mut Arena, blocks: usize) -> Option<Self> {
        let mut places = arena.array(Self::places(blocks))?;
        places.adopt_zeroed(FREE);
        Some(Self(places))
    }

    pub(super) fn clear(&mut self) {
        self.0.fill(FREE);
    }

    /// The places that a block at `start` may have, in the order in which they are tried.
    fn probes(&self, start: u64) -> impl Iterator<Item = usize> + use<> {
        let mask = self.0.len() - 1;
        let place = start >> PLACE_BITS;
        // Parts of the program that would meet are moved apart, by whole pages.
        let part = place / self.0.len() as u64;
        let first = (place.wrapping_add(part.wrapping_mul(SPREAD) >> 32 << 10)) as usize;
        (0..=mask).map(move |n| (first + n) & mask)
    }

    pub(super) fn find(&self, start: u64, pieces: &[Piece]) -> Option<u32> {
        let used = self.probes(start).map(|at| self.0[at]).take_while(|&place| place != FREE);
        let mut blocks = used.filter(|&place| place != GONE).map(|place| place - 1);
        blocks.find(|&block| pieces[block as usize].start == start)
    }

    pub(super) fn insert(&mut self, block: u32, pieces: &[Piece]) {
        let start = pieces[block as usize].start;
        // There are twice as many places as blocks ever.
        if let Some(at) = self.probes(start).find(|&at| matches!(self.0[at], FREE | GONE)) {
            self.0[at] = block + 1;
        }
    }

    pub(super) fn remove(&mut self, block: u32, pieces: &[Piece]) {
        let start = pieces[block as usize].start;
        let found = self.probes(start).take_while(|&at| self.0[at] != FREE).find(|&at| self.0[at] == block + 1);
        if let Some(at) = found {
            self.0[at] = GONE;
        }
    }
}

/// Where code may have been translated from: a bit for all pages of the same remainder. Programs give memory back all
/// the time, and it is hardly ever code.
#[derive(Debug)]
pub(super) struct Pages([u64; PAGE_WORDS]);

const PAGE_WORDS: usize = 1024;
const PAGE: u64 = 4096;

impl Pages {
    pub(super) const NONE: Self = Self([0; PAGE_WORDS]);

    fn of(range: &Range<u64>) -> impl Iterator<Item = (usize, u64)> + use<> {
        let all = range.start / PAGE..range.end.div_ceil(PAGE).max(range.start / PAGE + 1);
        // More than there are bits say nothing new.
        all.take(PAGE_WORDS * 64).map(|page| (page as usize / 64 % PAGE_WORDS, 1 << (page % 64)))
    }

    pub(super) fn add(&mut self, range: &Range<u64>) {
        for (word, bit) in Self::of(range) {
            self.0[word] |= bit;
        }
    }

    /// Whether there may be a block of this range. Never `false` if there is one.
    pub(super) fn may_have(&self, range: &Range<u64>) -> bool {
        Self::of(range).any(|(word, bit)| self.0[word] & bit != 0)
    }
}

/// What was found of an address of the cache: a tool that looks at threads asks for the same few all the time.
#[derive(Clone, Copy, Debug)]
struct Met {
    at: u32,
    state: State,
    ip: u64,
}

/// The last of those whose offsets have the same remainder.
#[derive(Debug)]
pub(super) struct Recent(Array<Met>);

/// A cache's routines begin with it, and are no block's.
const NOWHERE: Met = Met { at: 0, state: State::EXACT, ip: 0 };

impl Recent {
    const COUNT: usize = 1024;
    /// Memory for it.
    pub(super) const BYTES: usize = Self::COUNT * size_of::<Met>();

    pub(super) fn new(arena: &mut Arena) -> Option<Self> {
        let mut places = arena.array(Self::COUNT)?;
        places.fill_up(NOWHERE);
        Some(Self(places))
    }

    pub(super) fn clear(&mut self) {
        self.0.fill(NOWHERE);
    }

    fn place(&mut self, at: u32) -> &mut Met {
        &mut self.0[at as usize % Self::COUNT]
    }
}

impl Cache {
    /// The exit's way out. `None` for a number from before everything was emptied.
    pub(crate) fn exit(&self, number: u32) -> Option<crate::translate::WayOut> {
        self.exits.get(number as usize).map(|exit| exit.out)
    }

    /// Where an exit's block begins in the cache.
    pub(crate) fn code_of(&self, exit: u32) -> u64 {
        self.address() + u64::from(self.pieces[self.exits[exit as usize].piece as usize].code)
    }

    /// Makes `context`, as the processor has it at its `ip` in the cache, what the program has. `false` if no code is
    /// there.
    pub(crate) fn restore(&mut self, context: &mut Context, area: &Area) -> bool {
        if self.stubs.restore(context, area, &self.marks[..self.routine_marks]) {
            return true;
        }
        self.stubs.routines.restore(context, area);
        let Some(at) = context.ip.checked_sub(self.address()).and_then(|at| u32::try_from(at).ok()) else {
            return false;
        };
        let known = *self.recent.place(at);
        if at != NOWHERE.at && known.at == at {
            known.state.restore(context, area);
            context.ip = known.ip;
            return true;
        }
        let behind = self.pieces.partition_point(|piece| piece.code <= at);
        let Some(piece) = behind.checked_sub(1).map(|n| &self.pieces[n]).filter(|p| at < p.code + p.length) else {
            return false;
        };
        let offset = at - piece.code;
        let exits = &self.exits[piece.first_exit as usize..][..piece.exit_count as usize];
        // Behind the body registers are the program's, and the way out is decided.
        let exit = exits.iter().rev().find(|exit| exit.out.stub <= offset).map(|exit| exit.out);
        let offset = match exit.map(|out| (out, out.way)) {
            // But for what the comparison put away.
            Some((_, Way::Changed(at))) => at - 1,
            Some((out, way)) => {
                let done = !matches!(way, Way::Event(_) | Way::SystemCall(_) | Way::Visit(_));
                context.ip = if done { out.target } else { out.ip };
                return true;
            }
            None => offset,
        };
        let marks = &self.marks[piece.first_mark as usize..][..piece.mark_count as usize];
        let behind = marks.partition_point(|mark| u32::from(mark.offset) <= offset);
        let Some(mark) = behind.checked_sub(1).map(|n| marks[n]) else { return false };
        mark.state.restore(context, area);
        context.ip = if mark.state.exit {
            exits.get(usize::from(mark.ip)).map_or(piece.start, |exit| exit.out.target)
        } else {
            piece.start + u64::from(mark.ip)
        };
        *self.recent.place(at) = Met { at, state: mark.state, ip: context.ip };
        true
    }
}

const _: () = assert!(NONE == GONE, "a block's number plus one never is `GONE`: there are fewer");
