//! How much of its caller's memory a function has read and written, found when it
//! returns.
//!
//! Pure: memory is asked for byte by byte, so that all of it can be tested without a
//! process. Another thread may have changed a string since the function read it; then
//! the two race, and it is the length now that counts.

use super::formats;
use super::numbers;
use core::ops::Range;
use relive_accesses::{Kind, Returned};

/// Where a function's strings are.
pub(super) trait Memory {
    /// The byte at an address, if it can be read. What is asked first was read by the function itself, as is each byte
    /// behind one that is no end.
    fn byte(&self, address: u64) -> Option<u8>;

    /// The function has read the byte there, if it read anything.
    fn begins(&self, address: u64) {
        let _ = address;
    }

    /// The number at an address, of so many bytes.
    fn number(&self, address: u64, bytes: u64) -> Option<u64> {
        (0..bytes).try_fold(0, |number, at| Some(number | u64::from(self.byte(address.wrapping_add(at))?) << (8 * at)))
    }

    /// How many elements a string has before its end, `limit` at most.
    fn length(&self, start: u64, unit: u64, limit: u64) -> Option<u64> {
        let mut length = 0;
        if limit > 0 {
            self.begins(start);
        }
        while length < limit && self.number(start.wrapping_add(length.wrapping_mul(unit)), unit)? != 0 {
            length += 1;
        }
        Some(length)
    }
}

/// Which results mean that the function did what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Means {
    Anything,
    NotNull,
    NotMinusOne,
    /// An `int`.
    NotNegative,
}

/// Where the arguments are that a format names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// Behind so many others.
    Passed(u8),
    /// In the `va_list` that is this argument.
    List(usize),
}

/// How much of the memory that an argument points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// So many bytes, if it points to any.
    Bytes(u64),
    /// A string with its end.
    Whole,
    /// The same, or as many elements as that argument says.
    WholeUpTo(usize),
    /// As many elements as the result says, and one more.
    Result,
    /// The same, or as many elements as that argument says.
    ResultUpTo(usize),
    /// Up to the element that the result points to, and with it; if there is none, a string with its end.
    Hit,
    /// The same; if there is none, as many elements as that argument says.
    HitUpTo(usize),
    /// From the byte that the result points to up to as many as that argument says; if there is none, all of those.
    HitFromEnd(usize),
    /// A number up to what ends it, to the base that the argument says; else a decimal one.
    Number(Option<usize>),
    /// A pointer that is stored if the argument is a base.
    EndOfNumber(usize),
    /// A number with a fraction, up to what ends it; where that is, the function stores where the argument says.
    Fraction(Option<usize>),
    /// As many characters as the result says, an `int`, and an end.
    Text,
    /// The same, or as many elements as the argument says.
    TextWithin(usize),
}

/// What a function does to memory of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Read(usize, Extent),
    Write(usize, Extent),
    /// The first two are read up to the first difference, the end, or as many elements as the argument says.
    Compare(Option<usize>),
    /// The first two are read up to the first difference, or as many elements as the argument says.
    CompareWithin(usize),
    /// What is read of the first, to which the second is appended: all of it, or as many elements as the argument says.
    Extend(Option<usize>),
    /// The second is looked for in the first; both are strings.
    Search,
    /// The third, of so many bytes as the fourth says, is looked for.
    SearchWithin,
    /// `strsep`.
    Separate,
    /// `strtok_r`.
    Token,
    /// `getdelim`.
    Get,
    /// The first points to where the new text is, whose length the result says.
    Make,
    /// What the format that is this argument reads of what it prints, and itself.
    Format(usize, From),
    /// What the format that is this argument stores.
    Scan(usize, From),
}

/// A function's call, when it returns.
pub(super) struct Done<'a, M> {
    pub(super) call: &'a Returned,
    pub(super) unit: u64,
    pub(super) memory: &'a M,
    /// Takes what was read and written.
    pub(super) touch: &'a mut dyn FnMut(Range<u64>, Kind),
}

/// The function has not told how much; nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unknown;

impl<M: Memory> Done<'_, M> {
    pub(super) fn argument(&self, number: usize) -> u64 {
        self.call.arguments[number]
    }

    /// An `int`.
    fn short_result(&self) -> i32 {
        self.call.result as i32
    }

    pub(super) fn is_meant(&self, means: Means) -> bool {
        match means {
            Means::Anything => true,
            Means::NotNull => self.call.result != 0,
            Means::NotMinusOne => self.call.result != u64::MAX,
            Means::NotNegative => self.short_result() >= 0,
        }
    }

    /// Tells of one thing that the function did.
    pub(super) fn tell(&mut self, effect: Effect) -> Result<(), Unknown> {
        match effect {
            Effect::Read(argument, extent) => self.extent(argument, extent, Kind::Read),
            Effect::Write(argument, extent) => self.extent(argument, extent, Kind::Write),
            Effect::Compare(limit) => self.compare(limit),
            Effect::CompareWithin(limit) => self.compare_within(limit),
            Effect::Extend(limit) => self.extend(limit),
            Effect::Search => self.search(),
            Effect::SearchWithin => {
                self.search_within();
                Some(())
            }
            Effect::Separate => self.separate(),
            Effect::Token => self.token(),
            Effect::Get => self.get(),
            Effect::Make => self.make(),
            Effect::Format(format, from) => formats::printed(self, format, from),
            Effect::Scan(format, from) => formats::scanned(self, format, from, self.short_result()),
        }
        .ok_or(Unknown)
    }

    pub(super) fn bytes(&mut self, start: u64, bytes: u64, kind: Kind) {
        if start != 0 && bytes > 0 {
            (self.touch)(start..start.wrapping_add(bytes), kind);
        }
    }

    pub(super) fn elements(&mut self, start: u64, count: u64, kind: Kind) {
        self.bytes(start, count.saturating_mul(self.unit), kind);
    }

    /// A string with its end, or so many elements.
    pub(super) fn string(&mut self, start: u64, limit: u64, kind: Kind) -> Option<()> {
        let length = self.memory.length(start, self.unit, limit)?;
        self.elements(start, length.saturating_add(1).min(limit), kind);
        Some(())
    }

    fn extent(&mut self, argument: usize, extent: Extent, kind: Kind) -> Option<()> {
        let (start, result) = (self.argument(argument), self.call.result);
        let (unit, memory) = (self.unit, self.memory);
        let count = match extent {
            Extent::Bytes(bytes) => {
                self.bytes(start, bytes, kind);
                return Some(());
            }
            Extent::EndOfNumber(base) => {
                let bytes = if numbers::is_base(self.argument(base) as i32) { 8 } else { 0 };
                self.bytes(start, bytes, kind);
                return Some(());
            }
            Extent::Hit if result == 0 => return self.string(start, u64::MAX, kind),
            Extent::Whole => return self.string(start, u64::MAX, kind),
            Extent::WholeUpTo(limit) => return self.string(start, self.argument(limit), kind),
            Extent::Result => result.wrapping_add(1),
            Extent::ResultUpTo(limit) => result.saturating_add(1).min(self.argument(limit)),
            Extent::HitUpTo(limit) | Extent::HitFromEnd(limit) if result == 0 => self.argument(limit),
            Extent::Hit | Extent::HitUpTo(_) => result.wrapping_sub(start) / unit + 1,
            Extent::HitFromEnd(limit) => {
                let end = start.wrapping_add(self.argument(limit));
                self.bytes(result, end.wrapping_sub(result), kind);
                return Some(());
            }
            Extent::Number(base) => {
                numbers::integer(memory, start, base.map_or(10, |base| self.argument(base) as i32))?
            }
            Extent::Fraction(end) => {
                let place = end.map(|end| self.argument(end)).filter(|&place| place != 0);
                numbers::fraction(memory, start, place.and_then(|place| memory.number(place, 8)))?
            }
            Extent::Text => self.short_result() as u64 + 1,
            Extent::TextWithin(size) => (self.short_result() as u64 + 1).min(self.argument(size)),
        };
        self.elements(start, count, kind);
        Some(())
    }

    fn compare(&mut self, limit: Option<usize>) -> Option<()> {
        let limit = limit.map_or(u64::MAX, |limit| self.argument(limit));
        let [one, other] = [self.argument(0), self.argument(1)];
        // Some do not look at what is the same.
        if one == other || limit == 0 {
            return Some(());
        }
        if self.short_result() == 0 {
            self.string(one, limit, Kind::Read)?;
            return self.string(other, limit, Kind::Read);
        }
        let count = self.up_to_difference([one, other], limit, true)?;
        self.elements(one, count, Kind::Read);
        self.elements(other, count, Kind::Read);
        Some(())
    }

    fn compare_within(&mut self, limit: usize) -> Option<()> {
        let ([one, other], limit) = ([self.argument(0), self.argument(1)], self.argument(limit));
        let same = self.short_result() == 0;
        let count = if same { limit } else { self.up_to_difference([one, other], limit, false)? };
        self.elements(one, count, Kind::Read);
        self.elements(other, count, Kind::Read);
        Some(())
    }

    /// How many elements are the same in both, and the first that is not, or with `ends` is the end.
    fn up_to_difference(&self, both: [u64; 2], limit: u64, ends: bool) -> Option<u64> {
        for start in both {
            self.memory.begins(start);
        }
        let mut count = 0;
        while count < limit {
            let at = count.wrapping_mul(self.unit);
            let [left, right] = both.map(|start| self.memory.number(start.wrapping_add(at), self.unit));
            count += 1;
            if left? != right? || ends && left == Some(0) {
                break;
            }
        }
        Some(count)
    }

    fn extend(&mut self, limit: Option<usize>) -> Option<()> {
        let limit = limit.map_or(u64::MAX, |limit| self.argument(limit));
        let all = self.memory.length(self.argument(0), self.unit, u64::MAX)?;
        let added = self.memory.length(self.argument(1), self.unit, limit)?;
        self.elements(self.argument(0), all.checked_sub(added)?.saturating_add(1), Kind::Read);
        Some(())
    }

    fn search(&mut self) -> Option<()> {
        let [within, what] = [self.argument(0), self.argument(1)];
        if self.call.result == 0 {
            // What is looked for has at least its first element.
            self.elements(what, 1, Kind::Read);
            return self.string(within, u64::MAX, Kind::Read);
        }
        let found = self.memory.length(what, self.unit, u64::MAX)?;
        let before = self.call.result.wrapping_sub(within) / self.unit;
        self.elements(within, before.saturating_add(found), Kind::Read);
        self.string(what, u64::MAX, Kind::Read)
    }

    /// Where nothing is found, or before it, it may have passed over bytes.
    fn search_within(&mut self) {
        if self.call.result != 0 {
            self.bytes(self.call.result, self.argument(3), Kind::Read);
            self.bytes(self.argument(2), self.argument(3), Kind::Read);
        }
    }

    /// The token now ends where its delimiter was, if it had one: there is where the next one begins. What stands there by
    /// now another thread may have written.
    fn separate(&mut self) -> Option<()> {
        let (place, token) = (self.argument(0), self.call.result);
        self.bytes(place, 8, Kind::Read);
        if token == 0 {
            return Some(());
        }
        self.bytes(place, 8, Kind::Write);
        match self.memory.number(place, 8)? {
            0 => self.string(token, u64::MAX, Kind::Read)?,
            behind => self.delimited(token, behind),
        }
        self.string(self.argument(1), u64::MAX, Kind::Read)
    }

    fn token(&mut self) -> Option<()> {
        let (place, token) = (self.argument(2), self.call.result);
        if self.argument(0) == 0 {
            self.bytes(place, 8, Kind::Read);
        }
        self.bytes(place, 8, Kind::Write);
        if token == 0 {
            return Some(());
        }
        if self.argument(0) != 0 {
            self.bytes(self.argument(0), token.wrapping_sub(self.argument(0)), Kind::Read);
        }
        let next = self.memory.number(place, 8)?;
        // The last one's end is where the next one would begin.
        if self.memory.byte(next.wrapping_sub(1))? == 0 || self.memory.byte(next)? != 0 {
            self.delimited(token, next);
        } else {
            self.bytes(token, next.wrapping_sub(token).saturating_add(1), Kind::Read);
        }
        self.string(self.argument(1), u64::MAX, Kind::Read)
    }

    /// A token whose delimiter, which became its end, stood before `behind`. Of two places one race is told: by the write.
    fn delimited(&mut self, token: u64, behind: u64) {
        self.bytes(behind.wrapping_sub(1), 1, Kind::Write);
        self.bytes(token, behind.wrapping_sub(token), Kind::Read);
    }

    fn get(&mut self) -> Option<()> {
        if (self.call.result as i64) >= 0 {
            let place = self.argument(0);
            self.bytes(place, 8, Kind::Read);
            self.bytes(self.argument(1), 8, Kind::Read);
            let line = self.memory.number(place, 8)?;
            self.bytes(line, self.call.result.saturating_add(1), Kind::Write);
        }
        Some(())
    }

    fn make(&mut self) -> Option<()> {
        self.bytes(self.argument(0), 8, Kind::Write);
        let text = self.memory.number(self.argument(0), 8)?;
        self.bytes(text, self.short_result() as u64 + 1, Kind::Write);
        Some(())
    }
}

#[cfg(test)]
mod tests;
