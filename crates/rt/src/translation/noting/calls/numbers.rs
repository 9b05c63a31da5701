//! How far `strtol`, `strtod` and their kin read a text.
//!
//! By the C locale's white space and digits: where another locale has more of either,
//! fewer bytes count than were read.

use super::shapes::Memory;

/// A text that is read from its beginning on.
struct Reader<'a, M> {
    memory: &'a M,
    start: u64,
    count: u64,
}

impl<M: Memory> Reader<'_, M> {
    fn look(&self, ahead: u64) -> Option<u8> {
        self.memory.byte(self.start.wrapping_add(self.count + ahead))
    }

    fn pass(&mut self, wanted: impl Fn(u8) -> bool) -> Option<u64> {
        let before = self.count;
        while wanted(self.look(0)?) {
            self.count += 1;
        }
        Some(self.count - before)
    }

    fn pass_space_and_sign(&mut self) -> Option<()> {
        self.pass(|byte| byte == b' ' || (9..=13).contains(&byte))?;
        if matches!(self.look(0)?, b'+' | b'-') {
            self.count += 1;
        }
        Some(())
    }
}

/// Whether integers can be written to this base, or 0 stands for what they begin with.
pub(super) fn is_base(base: i32) -> bool {
    matches!(base, 0 | 2..=36)
}

/// Bytes up to what ends an integer, and with it.
pub(super) fn integer(memory: &impl Memory, start: u64, base: i32) -> Option<u64> {
    if !is_base(base) {
        // Nothing is read.
        return Some(0);
    }
    let base = base as u32;
    let mut text = Reader { memory, start, count: 0 };
    text.pass_space_and_sign()?;
    let marked = matches!(base, 0 | 16) && text.look(0)? == b'0' && text.look(1)?.eq_ignore_ascii_case(&b'x');
    let base = match base {
        _ if marked => 16,
        0 if text.look(0)? == b'0' => 8,
        0 => 10,
        base => base,
    };
    text.count += if marked { 2 } else { 0 };
    text.pass(|byte| char::from(byte).is_digit(base))?;
    Some(text.count + 1)
}

/// Bytes up to what follows the digits that a fraction begins with, and with it. Which character separates those behind
/// them is the locale's business; `end` is where the function says that the number ended, if it was asked.
pub(super) fn fraction(memory: &impl Memory, start: u64, end: Option<u64>) -> Option<u64> {
    if let Some(end) = end.filter(|&end| end > start) {
        return Some(end - start + 1);
    }
    let mut text = Reader { memory, start, count: 0 };
    text.pass_space_and_sign()?;
    text.pass(|byte| byte.is_ascii_digit())?;
    Some(text.count + 1)
}

#[cfg(test)]
mod tests {
    use super::{fraction, integer};
    use crate::translation::noting::calls::made_up::Text;

    #[test]
    fn an_integer_is_read_up_to_what_ends_it() {
        let read = |text: &str, base| integer(&Text::of(text), Text::START, base);
        for (text, base, count) in [
            ("12", 10, 3),
            ("  -12x", 10, 6),
            ("x", 10, 1),
            ("", 10, 1),
            ("0x1F g", 0, 5),
            ("0x1F", 16, 5),
            ("0xg", 16, 3),
            ("0x1F", 10, 2),
            ("0778", 0, 4),
            ("0", 0, 2),
            ("zz.", 36, 3),
            ("12", 1, 0),
            ("12", 37, 0),
            ("12", -1, 0),
        ] {
            assert_eq!(read(text, base), Some(count), "{text} to the base {base}");
        }
    }

    #[test]
    fn a_fraction_is_read_as_far_as_is_known() {
        let read =
            |text: &str, end: Option<u64>| fraction(&Text::of(text), Text::START, end.map(|end| Text::START + end));
        for (text, end, count) in [
            ("1.5e3", Some(5), 6),
            ("1.5e3", None, 2),
            ("inf", Some(3), 4),
            ("none", Some(0), 1),
            (" -12", None, 5),
            ("", None, 1),
        ] {
            assert_eq!(read(text, end), Some(count), "{text}");
        }
    }
}
