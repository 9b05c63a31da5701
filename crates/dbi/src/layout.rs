//! What the memory is that code is translated from: whether it may change without
//! anybody telling.
//!
//! Code that nobody can write through any mapping changes only by a call that changes
//! the mapping, and those are seen ([`crate::process`]). All other code is translated
//! into blocks that compare the program's bytes before they run (`translate/check.rs`).
//! Nothing is write-protected: what the program, the kernel on its behalf, another
//! mapping of the same file or another process writes is found all the same, and none
//! of them can notice.

use crate::arena::Arena;
use crate::ranges::Ranges;
use core::ops::Range;

/// Ranges of each list. A process has 65530 mappings at most unless its system says otherwise, few of them of code.
const RANGES: usize = 1 << 14;
/// Calls that change mappings, by so many threads at a time.
const CALLS: usize = 32;

/// What code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nature {
    /// A file's: it stays until its mapping is changed, and is hardly ever there twice.
    Fixed,
    /// Somebody made it. It stays until its mapping is changed, and then often is what it was.
    Made,
    /// It may be written at any time.
    Writable,
}

/// How memory is mapped, where it may be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rights(u8);

impl Rights {
    /// It can't be executed.
    pub(crate) const NONE: Self = Self(0);
    const EXECUTE: u8 = 1;
    const WRITE: u8 = 2;
    const FILE: u8 = 4;

    pub(crate) fn new(execute: bool, write: bool, file: bool) -> Self {
        let bit = |is: bool, bit: u8| if is { bit } else { 0 };
        if execute { Self(Self::EXECUTE | bit(write, Self::WRITE) | bit(file, Self::FILE)) } else { Self::NONE }
    }

    /// May be executed, and nobody knows what else.
    pub(crate) const UNKNOWN: Self = Self(Self::EXECUTE | Self::WRITE);
}

/// The mappings of a process, as far as they concern code.
#[derive(Debug)]
pub(crate) struct Layout {
    /// Whether the lists are kept. Where they are not, all code is fixed.
    pub(crate) known: bool,
    code: Ranges,
    /// What may be mapped elsewhere, too.
    shared: Ranges,
    /// What a call is changing at the moment; empty ranges are free.
    changing: [Range<u64>; CALLS],
    /// Such calls that had no place there.
    more: usize,
}

impl Layout {
    pub(crate) const BYTES: usize = 2 * Ranges::bytes(RANGES);

    pub(crate) fn new(arena: &mut Arena) -> Option<Self> {
        let (code, shared) = (Ranges::new(arena, RANGES)?, Ranges::new(arena, RANGES)?);
        Some(Self { known: false, code, shared, changing: [const { 0..0 }; CALLS], more: 0 })
    }

    /// `range` is mapped like this from now on.
    pub(crate) fn map(&mut self, range: &Range<u64>, rights: Rights, shared: bool) {
        self.code.set(range, rights.0);
        self.shared.set(range, u8::from(shared));
    }

    /// The rights of `range` are these from now on.
    pub(crate) fn protect(&mut self, range: &Range<u64>, rights: Rights) {
        self.code.set(range, rights.0);
    }

    /// The rights of the byte at `address`, and whether it may be mapped elsewhere.
    pub(crate) fn mapped(&self, address: u64) -> (Rights, bool) {
        (Rights(self.code.at(address).0), self.shared.at(address).0 != 0)
    }

    /// Whether `range` has anything that matters.
    pub(crate) fn concerns(&self, range: &Range<u64>) -> bool {
        self.code.any(range) || self.shared.any(range) || self.overflowed()
    }

    fn overflowed(&self) -> bool {
        self.code.overflowed() || self.shared.overflowed()
    }

    /// A call begins that changes how `range` is mapped. What [`Self::changed`] is to be told.
    pub(crate) fn change(&mut self, range: &Range<u64>) -> Option<usize> {
        let place = self.changing.iter().position(Range::is_empty);
        match place {
            Some(place) => self.changing[place] = range.clone(),
            None => self.more += 1,
        }
        place
    }

    /// That call is over.
    pub(crate) fn changed(&mut self, place: Option<usize>) {
        match place {
            Some(place) => self.changing[place] = 0..0,
            None => self.more -= 1,
        }
    }

    /// What the code at `address` is, and up to where it is that. `None` if it can't be executed.
    pub(crate) fn nature(&self, address: u64) -> Option<(Nature, u64)> {
        if self.overflowed() {
            return Some((Nature::Writable, u64::MAX));
        }
        let ((rights, end), (shared, apart)) = (self.code.at(address), self.shared.at(address));
        if !self.known {
            return Some((if shared == 0 { Nature::Fixed } else { Nature::Writable }, apart));
        }
        let until = end.min(apart);
        if rights & Rights::EXECUTE == 0 {
            return None;
        }
        let changing = self.more > 0 || self.changing.iter().any(|range| range.start < until && range.end > address);
        Some(if shared != 0 || changing || rights & Rights::WRITE != 0 {
            (Nature::Writable, until)
        } else if rights & Rights::FILE != 0 {
            (Nature::Fixed, until)
        } else {
            (Nature::Made, until)
        })
    }
}
