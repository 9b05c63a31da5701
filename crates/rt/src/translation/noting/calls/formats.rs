//! What formatted output and input do to memory of their callers: strings that are
//! printed, and where what was read is stored.
//!
//! Which argument is where follows from the format alone, by the System V ABI (3.5.7).
//! Formats that name arguments by numbers, and conversions that glibc does not have by
//! itself, are not known.

use super::shapes::{Done, From, Memory};
use relive_accesses::Kind;

/// Bytes of the general, and of all registers that arguments are passed in.
const GENERAL: u64 = 48;
const ALL: u64 = GENERAL + 128;

/// Arguments in turn.
struct Arguments {
    general: u64,
    floating: u64,
    overflow: u64,
    /// Where registers were saved; none if they are the call's own.
    saved: Option<u64>,
}

impl Arguments {
    fn of<M: Memory>(done: &Done<'_, M>, from: From) -> Option<Self> {
        Some(match from {
            From::Passed(count) => {
                let overflow = done.call.stack.wrapping_add(8);
                Self { general: u64::from(count) * 8, floating: GENERAL, overflow, saved: None }
            }
            From::List(list) => {
                let [offsets, overflow] = done.call.list;
                let saved = done.memory.number(done.argument(list).wrapping_add(16), 8)?;
                Self { general: offsets & 0xFFFF_FFFF, floating: offsets >> 32, overflow, saved: Some(saved) }
            }
        })
    }

    fn general<M: Memory>(&mut self, done: &Done<'_, M>) -> Option<u64> {
        if self.general >= GENERAL {
            let place = self.overflow;
            self.overflow = place.wrapping_add(8);
            return done.memory.number(place, 8);
        }
        let offset = self.general;
        self.general += 8;
        match self.saved {
            Some(saved) => done.memory.number(saved.wrapping_add(offset), 8),
            None => Some(done.argument(offset as usize / 8)),
        }
    }

    fn pass_floating(&mut self, long: bool) {
        if long {
            self.overflow = self.overflow.wrapping_add(15) & !15;
            self.overflow = self.overflow.wrapping_add(16);
        } else if self.floating < ALL {
            self.floating += 16;
        } else {
            self.overflow = self.overflow.wrapping_add(8);
        }
    }
}

/// A format that is read from its beginning on.
struct Reader<'m, M> {
    memory: &'m M,
    at: u64,
}

impl<M: Memory> Reader<'_, M> {
    fn next(&mut self) -> Option<u8> {
        let byte = self.memory.byte(self.at)?;
        self.at = self.at.wrapping_add(1);
        Some(byte)
    }

    fn take(&mut self, wanted: impl Fn(u8) -> bool) -> Option<bool> {
        let found = wanted(self.memory.byte(self.at)?);
        self.at = self.at.wrapping_add(u64::from(found));
        Some(found)
    }

    /// A number, 0 if there is none. `None` if it is that of an argument.
    fn digits(&mut self) -> Option<u64> {
        let mut number = 0u64;
        while let digit @ b'0'..=b'9' = self.memory.byte(self.at)? {
            number = number.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
            self.at = self.at.wrapping_add(1);
        }
        (self.memory.byte(self.at)? != b'$').then_some(number)
    }

    /// Bytes of an integer, and whether a floating number is long.
    fn length(&mut self) -> Option<Length> {
        let first = self.memory.byte(self.at)?;
        let bytes = match first {
            b'h' => 2,
            b'l' | b'q' | b'L' | b'j' | b'z' | b'Z' | b't' => 8,
            _ => return Some(Length { bytes: 4, wide: false, long: false }),
        };
        self.at = self.at.wrapping_add(1);
        let twice = matches!(first, b'h' | b'l') && self.take(|byte| byte == first)?;
        let bytes = if first == b'h' && twice { 1 } else { bytes };
        Some(Length {
            bytes,
            wide: first == b'l' && !twice,
            long: matches!(first, b'L' | b'q') || first == b'l' && twice,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Length {
    bytes: u64,
    /// `l` alone.
    wide: bool,
    /// Of a floating number: `long double`.
    long: bool,
}

/// What is read of the format and of the strings that are printed by it.
pub(super) fn printed<M: Memory>(done: &mut Done<'_, M>, format: usize, from: From) -> Option<()> {
    let start = done.argument(format);
    done.string(start, u64::MAX, Kind::Read)?;
    let mut arguments = Arguments::of(done, from)?;
    let mut format = Reader { memory: done.memory, at: start };
    loop {
        match format.next()? {
            0 => return Some(()),
            b'%' => print_one(done, &mut format, &mut arguments)?,
            _ => {}
        }
    }
}

fn print_one<M: Memory>(done: &mut Done<'_, M>, format: &mut Reader<'_, M>, arguments: &mut Arguments) -> Option<()> {
    while format.take(|byte| b"-+ #0'I".contains(&byte))? {}
    if format.take(|byte| byte == b'*')? {
        arguments.general(done)?;
    }
    format.digits()?;
    let mut precision = None;
    if format.take(|byte| byte == b'.')? {
        precision = if format.take(|byte| byte == b'*')? {
            // A negative one is none.
            u64::try_from(arguments.general(done)? as i32).ok()
        } else {
            Some(format.digits()?)
        };
        format.digits()?;
    }
    let length = format.length()?;
    match format.next()? {
        b'%' | b'm' => {}
        b'd' | b'i' | b'o' | b'u' | b'x' | b'X' | b'c' | b'C' | b'p' => _ = arguments.general(done)?,
        b'e' | b'E' | b'f' | b'F' | b'g' | b'G' | b'a' | b'A' => arguments.pass_floating(length.long),
        conversion @ (b's' | b'S') => {
            let text = arguments.general(done)?;
            let wide = length.wide || conversion == b'S';
            match precision {
                // How many characters give so many bytes is the locale's business.
                _ if text == 0 => {}
                Some(_) if wide => return None,
                _ if wide => {
                    let characters = done.memory.length(text, 4, u64::MAX)?;
                    done.bytes(text, characters.saturating_add(1).saturating_mul(4), Kind::Read);
                }
                _ => done.string(text, precision.unwrap_or(u64::MAX), Kind::Read)?,
            }
        }
        b'n' => {
            let place = arguments.general(done)?;
            done.bytes(place, length.bytes, Kind::Write);
        }
        _ => return None,
    }
    Some(())
}

/// What is stored by a format of which so many conversions came to a result.
pub(super) fn scanned<M: Memory>(done: &mut Done<'_, M>, format: usize, from: From, count: i32) -> Option<()> {
    let mut arguments = Arguments::of(done, from)?;
    let mut format = Reader { memory: done.memory, at: done.argument(format) };
    let mut left = count;
    while left > 0 {
        match format.next()? {
            0 => return None,
            b'%' => left -= i32::from(scan_one(done, &mut format, &mut arguments)?),
            _ => {}
        }
    }
    Some(())
}

/// Whether the conversion counts.
fn scan_one<M: Memory>(done: &mut Done<'_, M>, format: &mut Reader<'_, M>, arguments: &mut Arguments) -> Option<bool> {
    let mut suppressed = false;
    while format.take(|byte| b"*'I".contains(&byte))? {
        suppressed |= done.memory.byte(format.at.wrapping_sub(1))? == b'*';
    }
    let width = format.digits()?;
    let allocates = format.take(|byte| byte == b'm')?;
    let length = format.length()?;
    let conversion = format.next()?;
    match conversion {
        b'%' => return Some(false),
        b'[' => pass_set(format)?,
        // `%as` was once what `%ms` is.
        b'a' if b"sS[".contains(&done.memory.byte(format.at)?) => return None,
        _ => {}
    }
    if suppressed {
        return Some(false);
    }
    let mut place = arguments.general(done)?;
    if allocates {
        done.bytes(place, 8, Kind::Write);
        place = done.memory.number(place, 8)?;
    }
    let unit = if length.wide || matches!(conversion, b'C' | b'S') { 4 } else { 1 };
    let bytes = match conversion {
        b'd' | b'i' | b'o' | b'u' | b'x' | b'X' | b'n' => length.bytes,
        b'p' => 8,
        b'e' | b'E' | b'f' | b'F' | b'g' | b'G' | b'a' | b'A' => match length {
            Length { long: true, .. } => 10,
            Length { wide: true, .. } => 8,
            _ => 4,
        },
        b'c' | b'C' => width.max(1).saturating_mul(unit),
        b's' | b'S' | b'[' => done.memory.length(place, unit, u64::MAX)?.saturating_add(1).saturating_mul(unit),
        _ => return None,
    };
    done.bytes(place, bytes, Kind::Write);
    Some(conversion != b'n')
}

/// What stands between the brackets: a bracket that comes first is one of them.
fn pass_set<M: Memory>(format: &mut Reader<'_, M>) -> Option<()> {
    format.take(|byte| byte == b'^')?;
    format.take(|byte| byte == b']')?;
    while match format.next()? {
        0 => return None,
        byte => byte != b']',
    } {}
    Some(())
}

#[cfg(test)]
mod tests;
