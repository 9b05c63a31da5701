//! Watches in a process with threads: other threads may be anywhere in the code
//! that is watched, and await something there themselves.
//!
//! A *site* is a piece of code with all watches in it. Its own code is written once
//! (`relive_sys::passage::site`); a watch that comes or goes gives it another, and sites
//! that would overlap become one. The code is changed in a way that lets no thread
//! pass by meanwhile: whoever comes here then meets a trap, whose handler waits for
//! the table.
//!
//! Old code is used again once no thread can be in it any more: each has had an
//! event since, or waits in our own.
//!
//! Another thread may fork in the middle of a change. The child has whatever was
//! written by then, so what is about to be changed is noted before.

use super::Table;
use super::retired::Ring;
use super::trap::on_trap;
use crate::environment::read_memory;
use core::ops::Range;
use core::sync::atomic::{Ordering, compiler_fence};
use relive_sys::decode::Instruction;
use relive_sys::passage::site::{self, Ask, BYTES, COPY_BYTES, INSTRUCTIONS};
use relive_sys::passage::{self, JUMP_BYTES, STUBS};
use relive_sys::signal::{handler_is_own, is_blocked};

/// Bytes of a patch in the form in which the launcher is told.
const PATCH: usize = 8;
const NO_ASK: Ask = Ask { instruction: 0, thread: 0, stub: 0 };

/// A piece of code that is watched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site {
    /// Where it begins; 0 if this one is free.
    entry: usize,
    /// Where instructions begin, by their distance, and the end behind the last.
    starts: [u8; INSTRUCTIONS + 1],
    count: usize,
    /// Its own code.
    pub(super) base: usize,
    gates: [usize; INSTRUCTIONS + 1],
    before: [u8; BYTES],
    now: [u8; BYTES],
}

/// Those of the process.
#[derive(Debug)]
pub(super) struct Crowd {
    sites: [Site; STUBS],
    /// Whose code is being changed, for a child that is forked meanwhile.
    changing: Site,
    retired: Ring,
}

pub(super) const NO_SITE: Site = Site {
    entry: 0,
    starts: [0; INSTRUCTIONS + 1],
    count: 0,
    base: 0,
    gates: [0; INSTRUCTIONS + 1],
    before: [0; BYTES],
    now: [0; BYTES],
};

impl Site {
    fn length(&self) -> usize {
        usize::from(self.starts[self.count])
    }

    fn code(&self) -> Range<usize> {
        self.entry..self.entry + self.length()
    }

    /// The instruction that begins at `place`.
    fn instruction_at(&self, place: usize) -> Option<usize> {
        let at = place.checked_sub(self.entry)?;
        self.starts[..self.count].iter().position(|&start| usize::from(start) == at)
    }

    /// The instruction whose copy is at `place`, and whether it begins there.
    fn original(&self, place: usize) -> Option<(usize, bool)> {
        (0..self.count).find_map(|index| {
            let copy = self.gates[index + 1] - COPY_BYTES;
            let inside = (copy..self.gates[index + 1]).contains(&place);
            inside.then_some((self.entry + usize::from(self.starts[index]), place == copy))
        })
    }

    /// Becomes `other` in such a way that a child that is forked meanwhile finds a whole one or none.
    fn become_whole(&mut self, other: &Self) {
        self.entry = 0;
        compiler_fence(Ordering::SeqCst);
        *self = Self { entry: 0, ..*other };
        compiler_fence(Ordering::SeqCst);
        self.entry = other.entry;
        compiler_fence(Ordering::SeqCst);
    }

    /// In a process that has no other thread: its code as it was, whatever part of a change is done.
    fn undo(&self) {
        let (mut found, length) = ([0; BYTES], self.length());
        if read_memory(self.entry, &mut found[..length]) {
            // SAFETY: no other thread comes by, and nobody's code but the site's, as it stood there, is written.
            unsafe { site::change(self.entry, &self.starts[..=self.count], &found[..length], &self.before[..length]) };
        }
    }

    /// Instructions from `entry` on, up to `end` at least.
    fn decode(entry: usize, end: usize, before: &[u8; BYTES]) -> Option<Self> {
        let mut site = Self { entry, before: *before, now: *before, ..NO_SITE };
        while site.count == 0 || entry + site.length() < end {
            let at = site.length();
            let length = Instruction::at(before.get(at..)?)?.length;
            if site.count == INSTRUCTIONS || at + length > BYTES {
                return None;
            }
            site.count += 1;
            site.starts[site.count] = (at + length) as u8;
        }
        Some(site)
    }
}

impl Crowd {
    #[expect(clippy::large_stack_arrays, reason = "what a static begins with")]
    pub(super) const NONE: Self = Self { sites: [NO_SITE; STUBS], changing: NO_SITE, retired: Ring::EMPTY };

    /// What stood where code is changed now: addresses, lengths, bytes.
    pub(super) fn patches(&self) -> impl Iterator<Item = [u64; 3]> + '_ {
        let pieces = |site: &Site| {
            let (entry, before, length) = (site.entry, site.before, site.length());
            (0..length).step_by(PATCH).map(move |at| {
                let word = u64::from_le_bytes(*before[at..].first_chunk().expect("whole words"));
                [(entry + at) as u64, (length - at).min(PATCH) as u64, word]
            })
        };
        self.sites.iter().filter(|site| site.entry != 0).flat_map(pieces)
    }

    /// Where a thread goes on that has met a trap at `place`.
    pub(super) fn gate(&self, place: usize) -> Option<usize> {
        let mut sites = self.sites.iter().filter(|site| site.entry != 0);
        sites.find_map(|site| site.instruction_at(place).map(|index| site.gates[index]))
    }

    /// The instruction whose copy is at `place`, and whether it begins there: also in code to which nobody comes any more.
    pub(super) fn original(&self, place: usize) -> Option<(usize, bool)> {
        let used = self.sites.iter().filter(|site| site.entry != 0);
        used.chain(self.retired.sites()).find_map(|site| site.original(place))
    }

    /// Code as it is without any watch.
    fn unwatched(&self, from: usize, bytes: &mut [u8; BYTES]) -> bool {
        let mut readable = BYTES;
        while readable > 0 && !read_memory(from, &mut bytes[..readable]) {
            // The code's last page.
            readable = if readable == BYTES { (4096 - from % 4096).min(BYTES - 1) } else { 0 };
        }
        for site in self.sites.iter().filter(|site| site.entry != 0) {
            for (index, place) in site.code().enumerate() {
                if let Some(byte) = place.checked_sub(from).and_then(|at| bytes.get_mut(at)) {
                    *byte = site.before[index];
                }
            }
        }
        readable > 0
    }
}

impl Table {
    /// Watches a place whose stub and stand point are known, besides whatever is watched there already.
    pub(super) fn join(&mut self, index: usize) -> Option<()> {
        if !self.keep_traps() {
            return None;
        }
        let place = self.strikes[index].place;
        let start = place - self.strikes[index].lead;
        let jumps = self.strikes[index].room >= JUMP_BYTES;
        let mut code = start..(place + 1).max(start + if jumps { JUMP_BYTES } else { 1 });
        // Sites that it touches, and those that these touch once they are one.
        let mut joined = [false; STUBS];
        let site = loop {
            let mut before = [0; BYTES];
            let known = self.crowd.unwatched(code.start, &mut before);
            let site = Site::decode(code.start, code.end, &before).filter(|_| known)?;
            code = site.code();
            let sites = self.crowd.sites.iter().enumerate();
            let touches = |(_, s): &(usize, &Site)| s.entry != 0 && s.entry < code.end && code.start < s.code().end;
            let Some((other, found)) = sites.filter(touches).find(|(other, _)| !joined[*other]) else { break site };
            joined[other] = true;
            code = code.start.min(found.entry)..code.end.max(found.code().end);
        };
        site.instruction_at(place)?;
        let into = match joined.iter().position(|&joined| joined) {
            Some(into) => into,
            None => self.crowd.sites.iter().position(|site| site.entry == 0)?,
        };
        self.strikes[index].site = Some(into);
        let done = self.rebuild(site, into, &joined, Some(index));
        if done.is_none() {
            self.strikes[index].site = None;
        }
        done
    }

    /// The watch is over.
    pub(super) fn part(&mut self, index: usize) {
        let Some(own) = self.strikes[index].site.take() else { return };
        let site = self.crowd.sites[own];
        let mut joined = [false; STUBS];
        joined[own] = true;
        let left = self.strikes.iter().any(|s| s.owner != 0 && s.site == Some(own));
        if left && self.rebuild(site, own, &joined, None).is_some() {
            return;
        }
        // Those that are left, if the launcher did not answer, strike when they come to their next operation.
        self.strikes.iter_mut().filter(|s| s.site == Some(own)).for_each(|s| s.site = None);
        let (starts, length) = (&site.starts[..=site.count], site.length());
        self.crowd.changing.become_whole(&site);
        // SAFETY: the handler of traps looks at this table, which is locked; the code is what stood there before.
        unsafe { site::change(site.entry, starts, &site.now[..length], &site.before[..length]) };
        self.crowd.retired.add(&site);
        self.crowd.sites[own].become_whole(&NO_SITE);
        self.crowd.changing.become_whole(&NO_SITE);
    }

    /// Takes everything away, in a process that has no other thread.
    pub(super) fn clear(&mut self) {
        let Crowd { sites, changing, .. } = &mut self.crowd;
        for site in sites.iter_mut().chain([changing]).filter(|site| site.entry != 0) {
            site.undo();
            *site = NO_SITE;
        }
        self.strikes.iter_mut().for_each(|s| s.site = None);
        self.crowd.retired.forget();
    }

    /// Gives `site` code of its own, in the place of those that are `joined`, and writes it over them.
    fn rebuild(&mut self, mut site: Site, into: usize, joined: &[bool; STUBS], new: Option<usize>) -> Option<()> {
        let (mut asks, mut owners, mut count, mut jumps) = ([NO_ASK; STUBS], [0; STUBS], 0, true);
        for (index, strike) in self.strikes.iter().enumerate() {
            let own = new == Some(index);
            if own || strike.owner != 0 && strike.site.is_some_and(|site| joined[site]) {
                let instruction = site.instruction_at(strike.place)?;
                (asks[count], owners[count]) = (Ask { instruction, thread: strike.thread, stub: strike.stub }, index);
                count += 1;
                jumps &= strike.room >= JUMP_BYTES;
            }
        }
        let asks = asks.get(..count).filter(|asks| asks.len() <= site::ASKS)?;
        let starts = site.starts;
        let own = &starts[..site.count];
        let inner = own.iter().filter(|&&at| usize::from(at) < JUMP_BYTES).count();
        let base = if jumps { self.find_base(site.entry, &own[..inner]) } else { None };
        jumps = base.is_some();
        site.base = match base {
            Some(base) => base,
            None => self.find_base(site.entry, &[])?,
        };
        site.gates = site::gates(site.base, site.count, asks);
        self.write(&site, asks)?;
        let (mut trapped, mut traps) = ([0; STUBS], 0);
        for ask in asks.iter().filter(|ask| !jumps || usize::from(own[ask.instruction]) >= JUMP_BYTES) {
            (trapped[traps], traps) = (own[ask.instruction], traps + 1);
        }
        let length = site.length();
        site.now = site::image(site.entry, base, &trapped[..traps], &site.before[..length]);
        self.lay(&site, joined, into)?;
        for (number, &owner) in owners[..count].iter().enumerate() {
            let strike = &mut self.strikes[owner];
            strike.site = Some(into);
            strike.back = site::behind(&site.gates, asks, number);
            // SAFETY: the stub of a watch without leading code.
            unsafe { site::direct(strike.stub, strike.back) };
        }
        Some(())
    }

    /// Writes the code that is the site's own.
    fn write(&self, site: &Site, asks: &[Ask]) -> Option<()> {
        let (mut places, mut targets) = ([0; INSTRUCTIONS], [0; INSTRUCTIONS]);
        for index in 0..site.count {
            places[index] = site.entry + usize::from(site.starts[index]);
            targets[index] = site::copy_of(site.gates[index], asks, index);
        }
        let copies = self.ask_copies(&places[..site.count], &targets[..site.count])?;
        let mut code = [&[][..]; INSTRUCTIONS];
        for (index, code) in code.iter_mut().enumerate() {
            *code = &copies.bytes[index][..copies.lengths[index]];
        }
        // SAFETY: what `find_base` returned, and nobody is there yet.
        unsafe { site::write_site(site.base, &code[..site.count], asks, site.code().end) };
        Some(())
    }

    /// Lets the program's threads come to it, and to those that are `joined` no more.
    fn lay(&mut self, site: &Site, joined: &[bool; STUBS], into: usize) -> Option<()> {
        let mut from = site.before;
        for other in (0..STUBS).filter(|&other| joined[other]) {
            let other = self.crowd.sites[other];
            let at = other.entry - site.entry;
            from[at..at + other.length()].copy_from_slice(&other.now[..other.length()]);
        }
        let (starts, length) = (&site.starts[..=site.count], site.length());
        self.crowd.changing.become_whole(site);
        // SAFETY: the handler of traps looks at this table, which is locked, and finds each start.
        let changed = unsafe { site::change(site.entry, starts, &from[..length], &site.now[..length]) };
        if !changed {
            // SAFETY: as above; where it could not be changed, it can't be changed back either.
            unsafe { site::change(site.entry, starts, &site.now[..length], &from[..length]) };
            self.crowd.changing.become_whole(&NO_SITE);
            return None;
        }
        for other in (0..STUBS).filter(|&other| joined[other]) {
            self.crowd.retired.add(&self.crowd.sites[other]);
            self.crowd.sites[other].become_whole(&NO_SITE);
        }
        self.crowd.sites[into].become_whole(site);
        self.crowd.changing.become_whole(&NO_SITE);
        Some(())
    }

    fn find_base(&mut self, entry: usize, starts: &[u8]) -> Option<usize> {
        let Crowd { sites, retired, .. } = &mut self.crowd;
        if !retired.sweep() {
            return None;
        }
        let overlaps = |base: usize, code: &Range<usize>| code.start < base + site::SITE_BYTES && base < code.end;
        site::find_base(entry, starts, &mut |code| {
            let used = sites.iter().any(|site| site.entry != 0 && overlaps(site.base, &code));
            used || retired.bases().any(|base| overlaps(base, &code))
        })
    }

    /// The handler of traps is there, for good: one may be on its way to a thread when the last watch ends.
    fn keep_traps(&mut self) -> bool {
        if self.crowd_traps {
            return true;
        }
        if handler_is_own(passage::SIGTRAP) || is_blocked(passage::SIGTRAP) {
            return false;
        }
        let before = passage::take_traps(on_trap);
        self.before.get_or_insert(before);
        self.traps += 1;
        self.crowd_traps = true;
        true
    }
}
