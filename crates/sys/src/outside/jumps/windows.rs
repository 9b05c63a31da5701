//! Which bytes around an instruction the jump takes.

use super::moved::Moved;
use super::{JUMP_BYTES, Outside, Places};
use crate::decode::Instruction;
use crate::frames::{Found, Known};
use crate::sites::entered::{SPANS, entered};
use core::ops::Range;

/// Windows of one file, at most.
const MOST: usize = 64;
const _: () = assert!(MOST <= SPANS);
/// Instructions before the one that is changed, at most.
const LEADING: usize = 4;

/// Whole instructions with one to be changed among them, by offsets in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) start: usize,
    pub(super) place: usize,
    pub(super) end: usize,
    pub(super) outside: Outside,
}

impl Window {
    pub(super) fn len(&self) -> usize {
        self.end - self.start
    }
}

/// Where the other bytes that a jump needs come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// From behind the instruction: nothing but a jump comes in between.
    Behind,
    /// From before it, too.
    Before,
}

/// Windows of some code, in ascending order, apart from each other.
#[derive(Debug)]
pub(super) struct Windows {
    list: [Option<Window>; MOST],
    count: usize,
}

impl Windows {
    /// One for each place in the code at `range` that has one, which shows the file from `offset` on.
    pub(super) fn of(places: &Places, range: &Range<usize>, offset: usize, known: &mut Known<'_>, side: Side) -> Self {
        let mut windows = Self { list: [None; MOST], count: 0 };
        let bytes = known.bytes();
        let code = bytes.get(offset..).unwrap_or(&[]);
        let code = &code[..code.len().min(range.len())];
        for (address, outside) in places.wanted_in(range) {
            let place = address - range.start;
            let opcode = Instruction::at(&code[place..]).map_or(0, |found| found.opcode_at);
            if known.with_opcode(offset + place + opcode) != Found::At(offset + place) {
                continue;
            }
            let function = known.function();
            if function.start >= offset
                && let Some(code) = code.get(..function.end - offset)
                && let Some(window) = find(code, function.start - offset, place, outside, side)
            {
                windows.insert(window);
            }
        }
        windows
    }

    pub(super) fn as_slice(&self) -> &[Option<Window>] {
        &self.list[..self.count]
    }

    /// Adds one, unless it meets another.
    pub(super) fn insert(&mut self, window: Window) {
        let at = self.as_slice().partition_point(|other| other.is_some_and(|other| other.start < window.start));
        let meets =
            |other: &Option<Window>| other.is_some_and(|other| other.start < window.end && window.start < other.end);
        if self.count == MOST || self.as_slice().iter().any(meets) {
            return;
        }
        self.list.copy_within(at..self.count, at + 1);
        self.list[at] = Some(window);
        self.count += 1;
    }

    pub(super) fn keep(&mut self, mut wanted: impl FnMut(usize, &Window) -> bool) {
        let mut kept = 0;
        for index in 0..self.count {
            if let Some(window) = self.list[index].filter(|window| wanted(index, window)) {
                self.list[kept] = Some(window);
                kept += 1;
            }
        }
        self.count = kept;
    }

    /// Leaves out those that something may jump into.
    pub(super) fn drop_entered(&mut self, code: &[u8]) {
        let span = |index: usize| self.list[index].map_or([0; 2], |window| [window.start, window.end]);
        let entered = entered(code, self.count, span, |_| false);
        self.keep(|index, _| !entered[index]);
    }
}

/// The window around the instruction at `place`, in the function that begins at `start` of the code and ends with it.
fn find(code: &[u8], start: usize, place: usize, outside: Outside, side: Side) -> Option<Window> {
    let mut before = [None; LEADING];
    let mut at = start;
    while at < code.len() {
        let found = Instruction::at(&code[at..])?;
        if jumps_anywhere(&found) {
            return None;
        }
        if at < place {
            before.rotate_right(1);
            before[0] = Some(at);
        }
        at += found.length;
    }
    let window = |start| behind(code, start, place, outside).map(|end| Window { start, place, end, outside });
    match side {
        Side::Behind => window(place),
        Side::Before => {
            before.into_iter().map_while(|start| start.filter(|&start| may_lead(code, start))).find_map(window)
        }
    }
}

/// Whether it goes where a register or a table says.
fn jumps_anywhere(found: &Instruction) -> bool {
    found.map == 0 && found.opcode == 0xFF && found.operands.is_some_and(|operands| matches!(operands >> 3 & 7, 4 | 5))
}

/// Whether the instruction at `start` may run in a piece before another one.
fn may_lead(code: &[u8], start: usize) -> bool {
    let moved = Instruction::at(&code[start..]).and_then(|found| Moved::of(&found, &code[start..]));
    moved.is_some_and(|moved| !moved.jumps())
}

/// Where a window from `start` on ends: so far behind the instruction that a jump has room.
fn behind(code: &[u8], start: usize, place: usize, outside: Outside) -> Option<usize> {
    let mut end = place + outside.length;
    while end - start < JUMP_BYTES {
        let found = Instruction::at(code.get(end..)?)?;
        let moved = Moved::of(&found, &code[end..])?;
        end += found.length;
        if moved.leaves() && end - start < JUMP_BYTES {
            return None;
        }
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::{Side, Window, find};
    use crate::outside::Outside;

    const RDTSC: [u8; 2] = [0x0F, 0x31];

    /// Start and end of the window around the one `rdtsc` of a function.
    fn found(code: &[u8], side: Side) -> Option<[usize; 2]> {
        let place = code.windows(2).position(|pair| pair == RDTSC).unwrap();
        let outside = Outside::at(&code[place..]).unwrap();
        find(code, 0, place, outside, side).map(|Window { start, end, .. }| [start, end])
    }

    #[test]
    fn a_window_takes_whole_instructions_behind() {
        assert_eq!(found(&[0x0F, 0x31, 0x48, 0xC1, 0xE2, 0x20, 0xC3], Side::Behind), Some([0, 6]));
        assert_eq!(found(&[0x90, 0x0F, 0x31, 0x89, 0xC0, 0xC3], Side::Behind), Some([1, 6]), "with the ret");
        assert_eq!(found(&[0x0F, 0x31, 0x90, 0x73, 0xFB, 0xC3], Side::Behind), Some([0, 5]), "with the jump");
        assert_eq!(found(&[0x0F, 0x31, 0xC3], Side::Behind), None, "another function");
        assert_eq!(found(&[0x0F, 0x31, 0xC3, 0x90, 0x90, 0x90], Side::Behind), None, "nothing follows a ret");
        assert_eq!(found(&[0x0F, 0x31, 0xE8, 0, 0, 0, 0], Side::Behind), None, "a call pushes its place");
        assert_eq!(found(&[0x0F, 0x31, 0xF3, 0x0F, 0x1E, 0xFA, 0x90], Side::Behind), None, "where others come to");
        assert_eq!(found(&[0x0F, 0x31, 0x89, 0xC0, 0x90, 0xFF, 0xE0], Side::Behind), None, "a jump to anywhere");
        assert_eq!(found(&[0x0F, 0x31, 0x0F, 0xAE, 0xE8, 0xC3], Side::Behind), Some([0, 5]), "a fence");
    }

    #[test]
    fn a_window_takes_no_more_before_than_it_needs() {
        let code = [0x53, 0x0F, 0xAE, 0xE8, 0x0F, 0x31, 0xE8, 0, 0, 0, 0];
        assert_eq!((found(&code, Side::Behind), found(&code, Side::Before)), (None, Some([1, 6])));
        assert_eq!(found(&[0x53, 0x53, 0x0F, 0x31, 0xC3], Side::Before), Some([0, 5]));
        assert_eq!(found(&[0x53, 0xE8, 0, 0, 0, 0, 0x0F, 0x31, 0xC3], Side::Before), None, "behind a call");
        assert_eq!(found(&[0x73, 0x00, 0x0F, 0x31, 0x90, 0xC3], Side::Before), None, "behind a jump");
    }
}
