//! Whether what a decoder comes to within a function is code at all.
//!
//! Some compilers lay tables between the parts of a function: Haskell's puts one in front
//! of each place where a call comes back, and unwinders are told of all of it as one
//! function. Whoever decodes through a table takes it for instructions. So what stands
//! behind an instruction that never goes on counts only if something in the function jumps
//! there, as it is decoded; or, because jumps by tables and landing pads are not seen, if
//! all of it looks like a program's.

use super::agreed::{goes_on, of_program};
use super::marks::Marks;
use crate::decode::{Instruction, length};
use core::ops::Range;

/// Where the jumps of one function lead: found out with the first question about it that needs them.
#[derive(Debug)]
pub(super) struct Reached {
    function: Range<usize>,
    marks: Marks,
    /// The part of the function of which it was found that something leads there: it begins at the first, and there at
    /// the second the latest.
    led: Option<[usize; 2]>,
}

impl Reached {
    pub(super) const fn new() -> Self {
        Self { function: 0..0, marks: Marks::NONE, led: None }
    }

    /// Whether the instruction at `start`, to which decoding `function` of `file` from its beginning leads, is one. `behind` is
    /// where the last instruction before it ends that never goes on.
    pub(super) fn is_code(
        &mut self,
        file: &[u8],
        function: &Range<usize>,
        behind: Option<usize>,
        start: usize,
    ) -> bool {
        let Some(bytes) = file.get(..function.end) else { return false };
        let Some(behind) = behind else { return true };
        self.leads(bytes, function, behind, start)
            || lengths(bytes, behind..start).all(|(at, _)| of_program(&bytes[at..]).is_some()) && goes_on(bytes, start)
    }

    /// Whether a jump of the function leads to an instruction from `behind` on up to `start`.
    fn leads(&mut self, bytes: &[u8], function: &Range<usize>, behind: usize, start: usize) -> bool {
        if self.function != *function {
            (self.function, self.led) = (function.clone(), None);
            if self.marks.start(function.clone()).is_none() {
                self.function = 0..0;
                return false;
            }
            jumps(bytes, function.clone())
                .filter_map(|(at, it)| target(bytes, at, &it))
                .for_each(|at| self.marks.mark(at));
        }
        if matches!(self.led, Some([from, at]) if from == behind && at <= start) {
            return true;
        }
        let mut all = lengths(bytes, behind..start).map(|(at, _)| at).chain([start]);
        let led = all.find(|&at| self.marks.any(at..at + 1));
        self.led = led.map(|at| [behind, at]).or(self.led);
        led.is_some()
    }
}

/// Where the instruction at `at` of some bytes ends, if nothing goes on behind it.
pub(super) fn end_of_all(bytes: &[u8], at: usize) -> Option<usize> {
    let found = may_lead(&bytes[at..]).then(|| Instruction::at(&bytes[at..])).flatten()?;
    ends(&found).then_some(at + found.length)
}

/// Where instructions begin from the start of a range on, and their bytes, up to its end or to what is none.
fn lengths(bytes: &[u8], range: Range<usize>) -> impl Iterator<Item = (usize, usize)> {
    let mut at = range.start;
    core::iter::from_fn(move || {
        let found = (at < range.end).then(|| length(&bytes[at..])).flatten()?;
        at += found;
        Some((at - found, found))
    })
}

/// Those of them that may lead elsewhere.
fn jumps(bytes: &[u8], range: Range<usize>) -> impl Iterator<Item = (usize, Instruction)> {
    let may_lead = lengths(bytes, range).filter(|&(at, _)| may_lead(&bytes[at..]));
    may_lead.filter_map(|(at, _)| Some((at, Instruction::at(&bytes[at..])?)))
}

/// Whether the instruction at the start of `code` may, by its opcode.
fn may_lead(code: &[u8]) -> bool {
    let prefix = |byte: &u8| matches!(byte, 0x26 | 0x2E | 0x36 | 0x3E | 0x40..=0x4F | 0x64..=0x67 | 0xF0 | 0xF2 | 0xF3);
    let opcode = code.iter().take_while(|byte| prefix(byte)).count();
    match code.get(opcode) {
        Some(0x0F) => matches!(code.get(opcode + 1), Some(0x0B | 0x80..=0x8F)),
        Some(byte) => {
            matches!(byte, 0x70..=0x7F | 0xC2 | 0xC3 | 0xCA..=0xCC | 0xE0..=0xE3 | 0xE9 | 0xEB | 0xF4 | 0xFF)
        }
        None => false,
    }
}

/// Whether nothing goes on behind it.
fn ends(it: &Instruction) -> bool {
    match (it.map, it.opcode) {
        (0, 0xC2 | 0xC3 | 0xCA | 0xCB | 0xCC | 0xE9 | 0xEB | 0xF4) | (1, 0x0B) => true,
        (0, 0xFF) => matches!(it.operands.map(|operands| operands >> 3 & 7), Some(4 | 5)),
        _ => false,
    }
}

/// Where a jump leads whose distance stands in it.
fn target(bytes: &[u8], at: usize, it: &Instruction) -> Option<usize> {
    let end = at + it.length;
    let distance = match (it.map, it.opcode) {
        (0, 0x70..=0x7F | 0xE0..=0xE3 | 0xEB) => isize::from(bytes[end - 1] as i8),
        (0, 0xE9) | (1, 0x80..=0x8F) => i32::from_le_bytes(*bytes[end - 4..].first_chunk()?) as isize,
        _ => return None,
    };
    end.checked_add_signed(distance)
}

#[cfg(test)]
mod tests {
    use super::{Reached, end_of_all, lengths};

    /// Whether the `cpuid` in `before` … `behind` counts.
    fn check(before: &[u8], behind: &[u8]) -> bool {
        let function = [before, &[0x0F, 0xA2], behind].concat();
        let ends = lengths(&function, 0..before.len()).filter_map(|(at, _)| end_of_all(&function, at)).last();
        Reached::new().is_code(&function, &(0..function.len()), ends, before.len())
    }

    #[test]
    fn what_is_come_to_is_code() {
        assert!(check(&[], &[0xC3]));
        // `test edi, edi; jz +1; ret; cpuid; ret`
        assert!(check(&[0x85, 0xFF, 0x74, 0x01, 0xC3], &[0xC3]));
        // `jmp +2; cpuid; ret; jmp -5`: backward
        assert!(check(&[0xEB, 0x03], &[0xC3, 0xEB, 0xFB]));
    }

    #[test]
    fn what_a_table_or_a_landing_pad_leads_to_is_code_if_it_looks_like_it() {
        // `jmp rax; mov eax, 1; cpuid; mov eax, ebx; ret`
        let case = [0xFF, 0xE0, 0xB8, 1, 0, 0, 0];
        assert!(check(&case, &[0x89, 0xD8, 0xC3]));
        assert!(!check(&case, &[0xF4, 0x06]), "an instruction of kernels, and one that is none");
    }

    #[test]
    fn a_number_behind_a_jump_is_none() {
        // As Mono's compiler lays one behind each jump to another file: `jmp [rip + ...]`.
        let jump = [0xFF, 0x25, 0x80, 0x06, 0x1A, 0x00];
        assert!(!check(&jump, &[0x03, 0x00]), "nothing ends there");
        assert!(check(&jump, &[0xE8, 1, 0, 0, 0]), "a call that does not return");
    }

    #[test]
    fn the_table_of_a_return_is_none() {
        // `jmp [rbp]`, what is on the stack, the kind, and the distance of another table; `lea rax, [rbp - 48]; ret`.
        let table = [0xFF, 0x65, 0x00, 5, 0, 0, 0, 0, 0, 0, 0, 30, 0, 0, 0, 0xF0];
        assert!(!check(&table, &[0x01, 0x48, 0x8D, 0x45, 0xD0, 0xC3]));
    }
}
