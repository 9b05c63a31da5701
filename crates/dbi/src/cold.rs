//! Code that inserted code branches to in rare cases, kept out of the body.
//!
//! A check that nearly always passes should cost a branch that is not taken and no
//! room among the code that runs. So the rare part is written aside while its
//! instruction is translated, and stands behind the body when that is whole; only
//! then is known where, so what depends on that is noted and put in then.

use crate::area::BACK;
use crate::assembler::{Assembler, Operand};
use crate::register::Gpr;
use crate::state::State;

/// Bytes of a block's rare parts.
const BYTES: usize = 12 * 1024;
/// How many there can be.
const PARTS: usize = 192;
/// Bytes of one part.
const PART_BYTES: usize = 512;
/// Displacements of one part that depend on where it stands.
const FIXUPS: usize = 8;

/// Where a displacement of 32 bits leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    /// Behind the branch that led here.
    Back,
    /// To a routine of the tool.
    Routine(u8),
}

/// A rare part while it is written. Its code may branch within itself, and go back or to a routine.
pub struct Aside {
    bytes: [u8; PART_BYTES],
    used: usize,
    full: bool,
    fixups: [Option<(u16, To)>; FIXUPS],
    count: usize,
    /// What comes next can't be reached but by a branch of its own.
    ended: bool,
}

impl Aside {
    pub(crate) fn new() -> Self {
        Self { bytes: [0; PART_BYTES], used: 0, full: false, fixups: [None; FIXUPS], count: 0, ended: false }
    }

    /// Writes code, bound as that of [`Inserter::code`](crate::Inserter::code) is.
    pub fn write<R>(&mut self, write: impl FnOnce(&mut Assembler<'_>) -> R) -> R {
        let mut code = Assembler::continuing(&mut self.bytes, self.used, self.full);
        let result = write(&mut code);
        (self.used, self.full) = (code.offset(), code.is_full());
        self.ended = false;
        result
    }

    fn fix(&mut self, to: To) {
        // Behind the four bytes.
        match self.fixups.get_mut(self.count) {
            Some(fixup) => *fixup = Some((self.used as u16, to)),
            None => self.full = true,
        }
        self.count += 1;
    }

    /// Goes on behind the branch that led here. So does the end of the part.
    pub fn resume(&mut self) {
        self.write(|code| code.bytes(&[0xE9, 0, 0, 0, 0]));
        self.fix(To::Back);
        self.ended = true;
    }

    /// Goes to the tool's routine with this number, which comes back behind the branch that led here. `link` is a
    /// register from [`Inserter::scratch`](crate::Inserter::scratch).
    pub fn routine(&mut self, number: usize, link: Gpr) {
        // lea link, [rip + back]
        self.write(|code| code.bytes(&[0x48 | link.high() << 2, 0x8D, 5 | link.low() << 3, 0, 0, 0, 0]));
        self.fix(To::Back);
        self.write(|code| {
            code.store(Operand::area(BACK), link);
            code.bytes(&[0xE9, 0, 0, 0, 0]);
        });
        self.fix(To::Routine(number as u8));
        self.ended = true;
    }

    /// The code, with an end. `None` if it did not fit.
    pub(crate) fn finish(&mut self) -> Option<Part<'_>> {
        if !self.ended {
            self.resume();
        }
        (!self.full).then(|| Part { bytes: &self.bytes[..self.used], fixups: &self.fixups[..self.count] })
    }
}

/// A rare part that is written.
pub(crate) struct Part<'a> {
    bytes: &'a [u8],
    fixups: &'a [Option<(u16, To)>],
}

impl Part<'_> {
    /// Bytes of its code.
    pub(crate) fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Writes it where it will run. It goes back to `back`.
    pub(crate) fn place(&self, code: &mut Assembler<'_>, back: usize, routines: &[u64]) {
        let start = code.offset();
        let address = code.here();
        code.bytes(self.bytes);
        for &(end, to) in self.fixups.iter().flatten() {
            let end = usize::from(end);
            let distance = match to {
                To::Back => back.wrapping_sub(start + end) as i32,
                To::Routine(number) => routines[usize::from(number)].wrapping_sub(address + end as u64) as i32,
            };
            code.patch(start + end - 4, distance);
        }
    }
}

/// Where a part's branch is, and what it comes with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// The branch to it ends here in the block.
    pub(crate) from: u32,
    /// The instruction that it belongs to, and where registers are all along it.
    pub(crate) ip: u16,
    pub(crate) state: State,
}

#[derive(Clone, Copy)]
struct Kept {
    origin: Origin,
    bytes: (u16, u16),
    fixups: (u16, u16),
}

/// The rare parts of a block.
pub(crate) struct Cold {
    bytes: [u8; BYTES],
    used: usize,
    fixups: [Option<(u16, To)>; 2 * PARTS],
    fixup_count: usize,
    parts: [Option<Kept>; PARTS],
    count: usize,
}

impl Cold {
    pub(crate) const fn new() -> Self {
        let (bytes, fixups, parts) = ([0; BYTES], [None; 2 * PARTS], [None; PARTS]);
        Self { bytes, used: 0, fixups, fixup_count: 0, parts, count: 0 }
    }

    /// Keeps a part. `false` if it does not fit.
    pub(crate) fn keep(&mut self, part: &Part<'_>, origin: Origin) -> bool {
        let bytes = self.used..self.used + part.bytes.len();
        let fixups = self.fixup_count..self.fixup_count + part.fixups.len();
        let places = (self.bytes.get_mut(bytes.clone()), self.fixups.get_mut(fixups.clone()));
        let (Some(to_bytes), Some(to_fixups), Some(place)) = (places.0, places.1, self.parts.get_mut(self.count))
        else {
            return false;
        };
        to_bytes.copy_from_slice(part.bytes);
        to_fixups.copy_from_slice(part.fixups);
        let ends = |range: &core::ops::Range<usize>| (range.start as u16, range.end as u16);
        *place = Some(Kept { origin, bytes: ends(&bytes), fixups: ends(&fixups) });
        (self.used, self.fixup_count, self.count) = (bytes.end, fixups.end, self.count + 1);
        true
    }

    /// The parts.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (Origin, Part<'_>)> {
        let range = |(start, end): (u16, u16)| usize::from(start)..usize::from(end);
        self.parts[..self.count].iter().flatten().map(move |kept| {
            let part = Part { bytes: &self.bytes[range(kept.bytes)], fixups: &self.fixups[range(kept.fixups)] };
            (kept.origin, part)
        })
    }
}
