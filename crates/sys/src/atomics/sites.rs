//! Where such instructions stand in a file's code, and how each can be changed.
//!
//! Apart from changing them because it looks at a file, not at a process.

use super::access::Access;
use super::spins::spins;
use crate::decode::Instruction;
use crate::frames::{Found, Known};
use crate::outside::Outside;
use crate::room::tables::Entered;
use crate::room::{self, JUMP_BYTES, Side};
use crate::sites::entered::{SPANS, entered};
use core::ops::Range;

/// Bytes of the instruction that raises a signal.
pub(super) const TRAP_BYTES: usize = 2;

/// An instruction by its offset in the code, with what a jump in its place takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Of the instruction.
    pub place: u32,
    /// Its bytes.
    pub length: u8,
    /// Of the room for a jump: so many bytes before the instruction, and so many from it on; none if there is no room.
    pub room: [u8; 2],
    /// Another room, if something jumps into that one.
    pub other: [u8; 2],
    /// It lies in the room of the one before, or right behind: that one's piece leads to its own, and nothing else does.
    pub covered: bool,
    /// A thread waits by it for another one, in a loop.
    pub spins: bool,
}

impl Site {
    fn new(place: usize, length: usize, room: [u8; 2]) -> Self {
        Self { place: place as u32, length: length as u8, room, other: [0; 2], covered: false, spins: false }
    }

    /// The same without room.
    pub(super) fn as_trap(self) -> Self {
        Self { room: [0; 2], other: [0; 2], covered: false, ..self }
    }

    /// The same with a jump of its own between what ends and what begins there, if it has room for that.
    fn by_itself(self, between: Range<usize>) -> Option<Self> {
        let own = if self.covered { self.room } else { [0; 2] };
        let mut rooms = [own, self.other].into_iter().map(|room| Self { room, other: [0; 2], covered: false, ..self });
        rooms.find(|site| {
            let bytes = usize::from(site.room[0] + site.room[1]);
            bytes >= JUMP_BYTES && between.start <= site.start() && site.end() <= between.end
        })
    }

    /// Where its room begins, or it itself.
    fn start(self) -> usize {
        self.place as usize - usize::from(self.room[0])
    }

    /// Where its room ends, or it itself.
    pub(super) fn end(self) -> usize {
        self.place as usize + usize::from(self.room[1].max(self.length))
    }

    /// What is changed, a jump or a trap: nothing may come into it behind its first byte. To one that is covered nothing may come
    /// at all.
    fn span(self) -> [usize; 2] {
        let place = self.place as usize;
        match self.room {
            [_, 0] => [place, place + TRAP_BYTES],
            _ if self.covered => [place - 1, self.end()],
            _ => [self.start(), self.end()],
        }
    }
}

/// Calls `visit` with each such instruction in the code which shows a file from `offset` on, in ascending order.
pub fn find(code: &[u8], offset: usize, known: &mut Known<'_>, mut visit: impl FnMut(Site)) {
    let mut finding = Finding::new();
    let mut last = None;
    each_suspect(code, |opcode| {
        // Exchanges have no prefix: every second byte of their kind is none. What nobody knows the functions of is mostly
        // written for speed, by hand, and has none.
        let found = match code[opcode] {
            0x86 | 0x87 => known.with_opcode_in_function(offset + opcode),
            _ => known.with_opcode(offset + opcode),
        };
        let Found::At(start) = found else { return };
        let Some(place) = start.checked_sub(offset).filter(|&place| last != Some(place)) else { return };
        let Some(locked) = Access::indivisible_at(&code[place..]) else { return };
        last = Some(place);
        visit(finding.site(code, offset, known, place, locked.length));
    });
}

/// Calls `visit` with the accesses at these offsets of the code, in ascending order, that can be changed. The rest is as for
/// [`find`].
pub fn at(
    code: &[u8],
    offset: usize,
    known: &mut Known<'_>,
    places: impl Iterator<Item = usize>,
    mut visit: impl FnMut(Site),
) {
    let mut finding = Finding::new();
    for place in places {
        let Some(access) = code.get(place..).and_then(Access::at) else { continue };
        let opcode = Instruction::at(&code[place..]).map_or(0, |found| found.opcode_at);
        if known.with_opcode(offset + place + opcode) != Found::At(offset + place) {
            continue;
        }
        let function = known.function();
        let start = function.start.checked_sub(offset);
        let spins = start.is_some_and(|start| spins(&code[..code.len().min(function.end - offset)], start, place));
        visit(Site { spins, ..finding.site(code, offset, known, place, access.length) });
    }
}

/// Joins those that lie in another one's room to it, and those right behind that have none; takes their room from those that
/// meet otherwise. `sites` are in ascending order.
pub fn join(sites: &mut [Site]) {
    for index in 1..sites.len() {
        let before = sites[index - 1];
        let own = &mut sites[index];
        let is_behind = before.end() == own.place as usize && before.room[1] != 0;
        let meets = before.end() > own.start();
        if before.end() > own.place as usize || is_behind && (meets || own.room[1] == 0) {
            let rest = before.end() - own.place as usize;
            own.other = if own.room[0] == 0 { own.room } else { [0; 2] };
            (own.room, own.covered) = ([0, own.length.max(rest as u8)], true);
        } else if meets {
            *own = own.as_trap();
        }
    }
}

/// Leaves room only to those that nothing jumps into; those that could not even be made into traps are left out. `sites`
/// are in ascending order, and joined. Returns how many there are, in the front.
pub fn settle(code: &[u8], sites: &mut [Site], mut is_none: impl FnMut(usize) -> bool) -> usize {
    let (mut kept, mut first) = (0, 0);
    while first < sites.len() {
        let mut behind = (first + SPANS).min(sites.len());
        while behind < sites.len() && sites[behind].covered && behind > first + 1 {
            behind -= 1;
        }
        let limit = sites.get(behind).map_or(code.len(), |next| next.start());
        let part = &mut sites[first..behind];
        let mut found = entered(code, part.len(), |index| part[index].span(), &mut is_none);
        for parts in [true, false] {
            let (mut at, mut behind) = (0, 0);
            let mut doubtful = false;
            while at < part.len() {
                let count = part[at..].chunk_by(|_, next| next.covered).next().map_or(1, <[Site]>::len);
                let end = part.get(at + count).map_or(limit, |next| next.start());
                doubtful |= lose(&mut part[at..at + count], &mut found[at..at + count], behind..end, parts);
                at += count;
                behind = part[at - 1].end();
            }
            if !doubtful {
                break;
            }
            found = entered(code, part.len(), |index| part[index].span(), &mut is_none);
        }
        for index in first..behind {
            if !found[index - first] {
                sites[kept] = Site { other: [0; 2], ..sites[index] };
                kept += 1;
            }
        }
        first = behind;
    }
    kept
}

/// Takes their room from those of a chain that something jumps into, and from those that live by it. If it `parts`, who has
/// room of its own, between what stands before the chain and what stands behind, goes on by itself. Returns whether there
/// were any.
fn lose(chain: &mut [Site], found: &mut [bool], between: Range<usize>, parts: bool) -> bool {
    // What leads into one that lies in another's room was found there alone.
    for index in (1..chain.len()).rev() {
        found[index - 1] |= found[index] && chain[index - 1].end() > chain[index].place as usize;
    }
    let (mut has_room, mut lost, mut behind) = (false, false, between.start);
    for index in 0..chain.len() {
        let site = chain[index];
        let goes_on = if site.covered { has_room && behind >= site.place as usize } else { site.room[1] != 0 };
        if goes_on && !found[index] {
            has_room = true;
        } else {
            lost |= site.room[1] != 0;
            // The next one lives by this one then, whose room ends no later than its own.
            let end = match chain.get(index + 1) {
                Some(next) if found[index + 1] => next.place as usize,
                Some(next) => next.end(),
                None => between.end,
            };
            let alone = if parts { site.by_itself(behind..end) } else { None };
            has_room = alone.is_some();
            chain[index] = alone.unwrap_or(site.as_trap());
        }
        behind = chain[index].end();
    }
    lost
}

/// Calls `visit` with each offset at which the opcode of one of these may stand.
fn each_suspect(code: &[u8], mut visit: impl FnMut(usize)) {
    const LOCK: u8 = 0xF0;
    for (at, &byte) in code.iter().enumerate() {
        // Whatever stands before it.
        let is_one = || Access::indivisible_at(&code[at..]).is_some();
        match byte {
            0x86 | 0x87 if is_one() => visit(at),
            LOCK if is_one() => {
                let is_prefix = |byte: &u8| matches!(byte, 0x66 | 0xF2 | 0xF3 | 0x40..=0x4F);
                let opcode = at + 1 + code[at + 1..].iter().take_while(|byte| is_prefix(byte)).count();
                // An exchange is met by itself.
                if !matches!(code[opcode], 0x86 | 0x87) {
                    visit(opcode);
                }
            }
            _ => {}
        }
    }
}

struct Finding {
    /// The function of which it is known whether there are jumps by tables in it.
    decided: Range<usize>,
    switches: bool,
    entered: Entered,
    /// Where what the last site may take ends.
    behind: usize,
}

impl Finding {
    const fn new() -> Self {
        Self { decided: 0..0, switches: false, entered: Entered::new(), behind: 0 }
    }

    /// The instruction of `length` bytes at `place`, in this function of the file.
    fn site(&mut self, code: &[u8], offset: usize, known: &Known<'_>, place: usize, length: usize) -> Site {
        let function = known.function();
        let within = function.start.checked_sub(offset).map(|start| start..function.end - offset);
        let rooms = within.filter(|function| function.end <= code.len()).map_or([None, None], |function| {
            self.rooms(known, offset, &code[..function.end], &function, place..place + length)
        });
        let [room, other] =
            rooms.map(|room| room.map_or([0; 2], |room| [(place - room.start) as u8, (room.end - place) as u8]));
        self.behind = place + length.max(usize::from(room[1]));
        Site { other, ..Site::new(place, length, room) }
    }

    /// The room for a jump around an instruction, in a function that ends with the code, and perhaps another one.
    fn rooms(
        &mut self,
        known: &Known<'_>,
        offset: usize,
        code: &[u8],
        function: &Range<usize>,
        own: Range<usize>,
    ) -> [Option<Range<usize>>; 2] {
        let (place, length) = (own.start, own.len());
        let in_file = |range: &Range<usize>| range.start + offset..range.end + offset;
        if length >= JUMP_BYTES {
            return [Some(place..place + length), None];
        }
        if self.decided != *function {
            self.decided = function.clone();
            self.switches = !room::is_known(code, function.start);
        }
        let mut of = |side| {
            let found = room::find(code, function.start, place, length, side)?;
            let safe = !self.switches
                || (found.start == place && uses_flags(&code[place + length..found.end]))
                || !self.entered.may_be(known, &in_file(function), &in_file(&found));
            let plain = is_plain(&code[..found.end], found.start..place, true)
                && is_plain(&code[..found.end], place + length..found.end, false);
            (safe && plain && found.start >= self.behind).then_some(found)
        };
        let mut rooms = [Side::Behind, Side::Before, Side::Branch].into_iter().filter_map(&mut of);
        [rooms.next(), rooms.next()]
    }
}

/// Whether the one instruction of `code` goes by flags: no table leads to it, because nobody comes there but from the
/// instruction that sets them.
fn uses_flags(code: &[u8]) -> bool {
    let Some(found) = Instruction::at(code) else { return false };
    let by_flags = matches!((found.map, found.opcode), (0, 0x70..=0x7F) | (1, 0x40..=0x4F | 0x80..=0x9F));
    by_flags && found.length == code.len()
}

/// Whether nothing there is changed elsewhere; and if `alone` says so, nothing here, either.
fn is_plain(code: &[u8], range: Range<usize>, alone: bool) -> bool {
    let mut at = range.start;
    while at < range.end {
        let Some(found) = Instruction::at(&code[at..]) else { return false };
        if Outside::at(&code[at..]).is_some() || alone && Access::indivisible_at(&code[at..]).is_some() {
            return false;
        }
        at += found.length;
    }
    true
}

#[cfg(test)]
mod tests;
