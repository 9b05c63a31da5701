//! Where such instructions stand in a file's code, and how each can be changed.
//!
//! Apart from changing them because it looks at a file, not at a process.

use super::access::Access;
use super::spins::spins;
use crate::decode::Instruction;
use crate::frames::{Found, Known};
use crate::outside::Outside;
use crate::room::{self, JUMP_BYTES, Side, tables};
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
    /// It lies in the room of the one before, or right behind: that one's piece leads to its own, and nothing else does.
    pub covered: bool,
    /// A thread waits by it for another one, in a loop.
    pub spins: bool,
}

impl Site {
    fn new(place: usize, length: usize, room: [u8; 2]) -> Self {
        Self { place: place as u32, length: length as u8, room, covered: false, spins: false }
    }

    /// The same without room.
    pub(super) fn as_trap(self) -> Self {
        Self { room: [0; 2], covered: false, ..self }
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
    let mut finding = Finding { decided: 0..0, switches: false, behind: 0 };
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
    let mut finding = Finding { decided: 0..0, switches: false, behind: 0 };
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
        let part = &mut sites[first..behind];
        let mut found = entered(code, part.len(), |index| part[index].span(), &mut is_none);
        for parts in [true, false] {
            let mut at = 0;
            let mut doubtful = false;
            for chain in part.chunk_by_mut(|_, next| next.covered) {
                doubtful |= lose(chain, &mut found[at..at + chain.len()], parts);
                at += chain.len();
            }
            if !doubtful {
                break;
            }
            found = entered(code, part.len(), |index| part[index].span(), &mut is_none);
        }
        for index in first..behind {
            if !found[index - first] {
                sites[kept] = sites[index];
                kept += 1;
            }
        }
        first = behind;
    }
    kept
}

/// Takes their room from those of a chain that something jumps into, and from those that live by it; if it `parts`, who has
/// room enough in that goes on by itself. Returns whether there were any.
fn lose(chain: &mut [Site], found: &mut [bool], parts: bool) -> bool {
    // What leads into one that lies in another's room was found there alone.
    for index in (1..chain.len()).rev() {
        found[index - 1] |= found[index] && chain[index - 1].end() > chain[index].place as usize;
    }
    let (mut has_room, mut lost) = (false, false);
    for (site, &mut is_entered) in chain.iter_mut().zip(found) {
        let goes_on = if site.covered { has_room } else { site.room[1] != 0 };
        if goes_on && !is_entered {
            has_room = true;
            continue;
        }
        lost |= site.room[1] != 0;
        has_room = parts && site.covered && !has_room && usize::from(site.room[1]) >= JUMP_BYTES;
        *site = if has_room { Site { covered: false, ..*site } } else { site.as_trap() };
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
    /// Where what the last site may take ends.
    behind: usize,
}

impl Finding {
    /// The instruction of `length` bytes at `place`, in this function of the file.
    fn site(&mut self, code: &[u8], offset: usize, known: &Known<'_>, place: usize, length: usize) -> Site {
        let function = known.function();
        let within = function.start.checked_sub(offset).map(|start| start..function.end - offset);
        let room = within
            .filter(|function| function.end <= code.len())
            .and_then(|function| self.room(known, offset, &code[..function.end], &function, place..place + length));
        let room = room.map_or([0; 2], |room| [(place - room.start) as u8, (room.end - place) as u8]);
        self.behind = place + length.max(usize::from(room[1]));
        Site::new(place, length, room)
    }

    /// The room for a jump around an instruction, in a function that ends with the code.
    fn room(
        &mut self,
        known: &Known<'_>,
        offset: usize,
        code: &[u8],
        function: &Range<usize>,
        own: Range<usize>,
    ) -> Option<Range<usize>> {
        let (place, length) = (own.start, own.len());
        let in_file = |range: &Range<usize>| range.start + offset..range.end + offset;
        if length >= JUMP_BYTES {
            return Some(place..place + length);
        }
        if self.decided != *function {
            self.decided = function.clone();
            self.switches = !room::is_known(code, function.start);
        }
        let of = |side| {
            let found = room::find(code, function.start, place, length, side)?;
            let safe = !self.switches
                || (found.start == place && uses_flags(&code[place + length..found.end]))
                || !tables::may_enter(known, &in_file(function), &in_file(&found));
            let plain = is_plain(&code[..found.end], found.start..place, true)
                && is_plain(&code[..found.end], place + length..found.end, false);
            (safe && plain && found.start >= self.behind).then_some(found)
        };
        of(Side::Behind).or_else(|| of(Side::Before))
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
mod tests {
    use super::{Site, each_suspect, join, settle};

    #[test]
    fn suspects_are_told_by_their_opcodes() {
        let mut found = Vec::new();
        // lock xadd [rdi], rax; xchg [rsi], eax; xchg esi, eax; lock xchg [rdi], rax
        let code = [0xF0, 0x48, 0x0F, 0xC1, 0x07, 0x87, 0x06, 0x87, 0xC6, 0xF0, 0x48, 0x87, 0x07];
        each_suspect(&code, |at| found.push(at));
        assert_eq!(found, [2, 5, 11]);
    }

    #[test]
    fn what_is_jumped_into_is_a_trap_or_left() {
        let mut code = vec![0x90; 64];
        // Jumps to the second instruction of the first room, and behind the lock prefix of the last.
        code[0..2].copy_from_slice(&[0xEB, 0x12]);
        code[2..4].copy_from_slice(&[0x74, 0x2D]);
        let mut sites = [Site::new(16, 4, [0, 6]), Site::new(32, 4, [2, 4]), Site::new(48, 4, [0, 5])];
        assert_eq!(settle(&code, &mut sites, |_| false), 2);
        assert_eq!(sites[..2], [Site::new(16, 4, [0, 0]), Site::new(32, 4, [2, 4])]);
    }

    #[test]
    fn those_in_anothers_room_go_with_it() {
        let covered = |place, length, room| Site { covered: true, ..Site::new(place, length, [0, room]) };
        let mut sites = [
            Site::new(16, 2, [0, 6]),
            Site::new(18, 2, [0, 5]),
            Site::new(20, 3, [0, 7]),
            Site::new(30, 2, [5, 2]),
            Site::new(40, 2, [0, 0]),
            Site::new(44, 2, [3, 3]),
        ];
        join(&mut sites);
        let first = [Site::new(16, 2, [0, 6]), covered(18, 2, 4), covered(20, 3, 3)];
        assert_eq!(sites[..3], first);
        assert_eq!(sites[3..], [Site::new(30, 2, [5, 2]), Site::new(40, 2, [0, 0]), Site::new(44, 2, [0, 0])]);
        // Something jumps to where the third is: none of the three has room.
        let mut code = vec![0x90; 64];
        code[0..2].copy_from_slice(&[0xEB, 0x12]);
        assert_eq!(settle(&code, &mut sites, |_| false), 6);
        assert_eq!(sites[..3], first.map(Site::as_trap));
    }

    #[test]
    fn one_in_anothers_room_has_its_own_where_something_jumps_to_it() {
        let mut sites = [Site::new(16, 4, [0, 9]), Site::new(20, 5, [0, 5]), Site::new(25, 3, [0, 0])];
        join(&mut sites);
        assert!(sites[1].covered && sites[2].covered);
        let mut code = vec![0x90; 64];
        let whole = sites;
        assert_eq!(settle(&code, &mut sites, |_| false), 3);
        assert_eq!(sites, whole);
        // To the second one.
        code[0..2].copy_from_slice(&[0xEB, 0x12]);
        assert_eq!(settle(&code, &mut sites, |_| false), 3);
        assert_eq!(sites, [whole[0].as_trap(), Site::new(20, 5, [0, 5]), whole[2]]);
        // And into it.
        code[2..4].copy_from_slice(&[0xEB, 0x12]);
        let mut sites = whole;
        assert_eq!(settle(&code, &mut sites, |_| false), 3);
        assert_eq!(sites, whole.map(Site::as_trap));
    }

    #[test]
    fn one_right_behind_anothers_room_goes_with_it_unless_something_jumps_to_it() {
        let mut sites = [Site::new(16, 4, [0, 6]), Site::new(22, 3, [0, 0]), Site::new(30, 3, [0, 0])];
        join(&mut sites);
        let behind = Site { covered: true, ..Site::new(22, 3, [0, 3]) };
        assert_eq!(sites, [Site::new(16, 4, [0, 6]), behind, Site::new(30, 3, [0, 0])]);
        let mut code = vec![0x90; 64];
        assert_eq!(settle(&code, &mut sites, |_| false), 3);
        assert_eq!(sites[1], behind);
        code[0..2].copy_from_slice(&[0xEB, 0x14]);
        assert_eq!(settle(&code, &mut sites, |_| false), 3);
        assert_eq!(sites, [Site::new(16, 4, [0, 6]), behind.as_trap(), Site::new(30, 3, [0, 0])]);
    }
}
