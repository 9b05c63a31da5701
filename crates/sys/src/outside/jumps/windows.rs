//! Which bytes around an instruction the jump takes.

use super::{Outside, Places};
use crate::decode::Instruction;
use crate::frames::{Found, Known};
use crate::room::{self, Side};
use crate::sites::entered::{SPANS, entered};
use core::ops::Range;

/// Windows of one file, at most.
const MOST: usize = 64;
const _: () = assert!(MOST <= SPANS);
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
                && room::is_known(code, function.start - offset)
                && let Some(found) = room::find(code, function.start - offset, place, outside.length, side)
            {
                windows.insert(Window { start: found.start, place, end: found.end, outside });
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
