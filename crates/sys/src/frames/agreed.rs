//! Where instructions begin in code of which nobody says where functions begin.
//!
//! Whoever decodes machine code from a wrong byte falls into step with its true
//! instructions after a few. So it is decoded from many bytes some way before the place
//! in question, right or wrong. If all agree, that is the answer, provided that it looks
//! like code at all: data does not go on for long without bytes that are no instruction,
//! or one that only kernels use.

use super::Found;
use crate::decode::Instruction;
use core::ops::Range;

/// So far before the place is decoded first and last.
const FIRST: usize = 96;
const LAST: usize = 32;
/// So many must come as far as the place.
const LEAST: usize = 8;
/// Instructions behind it that must look like a program's.
const BEHIND: usize = 16;

/// The instruction with its opcode at the offset `opcode` of `file`, whose code is at `code`.
pub(super) fn find(file: &[u8], code: &Range<usize>, opcode: usize) -> Found {
    let Some(bytes) = file.get(..code.end) else { return Found::Unsure };
    let starts = opcode.saturating_sub(FIRST).max(code.start)..opcode.saturating_sub(LAST);
    let (mut all_at, mut count) = (None, 0);
    let (mut agree, mut may_be) = (true, false);
    for found in starts.filter_map(|start| walk(bytes, start, opcode)) {
        agree &= *all_at.get_or_insert(found) == found;
        may_be |= matches!(found, Found::At(start) if goes_on(bytes, start));
        count += 1;
    }
    match all_at {
        Some(found @ Found::At(_)) if agree && may_be && count >= LEAST => found,
        // Data, or a part of another instruction.
        _ if !may_be && opcode - code.start > FIRST => Found::Nothing,
        _ => Found::Unsure,
    }
}

/// What is found by whoever decodes from `start` on; `None` if that is no code.
fn walk(bytes: &[u8], mut start: usize, opcode: usize) -> Option<Found> {
    loop {
        let found = of_program(&bytes[start..])?;
        if start + found.opcode_at == opcode {
            return Some(Found::At(start));
        }
        if start + found.length > opcode {
            return Some(Found::Nothing);
        }
        start += found.length;
    }
}

/// Whether the instructions from `start` on look like a program's. Where `bytes` end code does, too: with what never goes on, or
/// with a call that does not return, but not just so.
pub(super) fn goes_on(bytes: &[u8], start: usize) -> bool {
    let (mut at, mut calls) = (start, false);
    for _ in 0..BEHIND {
        match of_program(&bytes[at..]) {
            _ if at == bytes.len() => return calls,
            None => return false,
            // Behind these may be anything.
            Some(Instruction { map: 0, opcode: 0xC2 | 0xC3 | 0xE9 | 0xEB, .. }) => return true,
            Some(found) => {
                at += found.length;
                calls = match (found.map, found.opcode) {
                    (0, 0xFF) => matches!(found.operands.map(|operands| operands >> 3 & 7), Some(2..=5)),
                    // A call, `ud2`, and what fills the space to the next function.
                    (0, 0xE8 | 0x90 | 0xCC) | (1, 0x0B | 0x1F) => true,
                    _ => false,
                };
            }
        }
    }
    true
}

/// The instruction at the start of `bytes`, if it is one that programs use.
pub(super) fn of_program(bytes: &[u8]) -> Option<Instruction> {
    let found = Instruction::at(bytes)?;
    let kernels = matches!(
        (found.map, found.opcode),
        (0, 0x6C..=0x6F | 0xCD..=0xCF | 0xE4..=0xE7 | 0xEC..=0xEF | 0xF1 | 0xF4 | 0xFA | 0xFB)
            | (1, 0x00 | 0x02 | 0x03 | 0x06..=0x09 | 0x20..=0x23 | 0x30 | 0x32..=0x37)
    );
    // Two bytes of zero are an instruction, but one of data: a number, a distance between a table and what it names.
    let zeros = (found.map, found.opcode, found.operands) == (0, 0, Some(0));
    (!kernels && !zeros).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::{FIRST, find};
    use crate::frames::{Found, Known};
    use std::ops::Range;

    /// libc's file, and the offsets of its code.
    fn library() -> (Vec<u8>, Range<usize>) {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.contains("r-xp") && line.contains("/libc.so")).expect("libc");
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (start, end) = fields[0].split_once('-').unwrap();
        let [start, end, offset] = [start, end, fields[2]].map(|text| usize::from_str_radix(text, 16).unwrap());
        (std::fs::read(fields[5]).unwrap(), offset..offset + end - start)
    }

    #[test]
    fn what_all_agree_on_is_what_the_function_says() {
        let (file, code) = library();
        let code = code.start..code.end.min(file.len());
        let mut known = Known::in_bytes(&file);
        let (mut sure, mut unsure) = (0, 0);
        for at in code.clone().filter(|&at| file[at] == 0x0F).step_by(9) {
            let said = known.with_opcode(at);
            if matches!(said, Found::Unsure) || !known.function().contains(&(at.saturating_sub(FIRST))) {
                continue;
            }
            match find(&file, &code, at) {
                Found::Unsure => unsure += 1,
                found => {
                    assert_eq!(found, said, "{at:x}");
                    sure += 1;
                }
            }
        }
        assert!(sure > 3_000 && unsure < sure / 20, "{sure} {unsure}");
    }

    #[test]
    fn the_table_of_a_return_is_no_code() {
        // As Haskell's compiler lays it before each place where a call comes back: what is on the stack, the kind, and
        // the distance of another table, which ends like a `cpuid`.
        let before = [0x48, 0x89, 0x45, 0x08, 0x48, 0x83, 0xC5, 0x10];
        let table = [0xFF, 0x65, 0x00, 5, 0, 0, 0, 0, 0, 0, 0, 24, 0, 0, 0, 0xF0, 0x0F, 0xA2, 0x01];
        let behind = [0x48, 0x8D, 0x45, 0xD0, 0x4C, 0x39, 0xF8, 0xC3];
        let parts = [before.repeat(16), table.to_vec(), behind.repeat(4)];
        let (code, at) = (parts.concat(), parts[0].len() + table.len() - 3);
        assert_eq!(code[at..at + 2], [0x0F, 0xA2]);
        assert!(!matches!(find(&code, &(0..code.len()), at), Found::At(_)));
    }

    #[test]
    fn numbers_are_no_code() {
        // As random as a table: what looks like `rdtsc` in it stays.
        let mut state = 1u64;
        let data: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u8
        })
        .take(1 << 20)
        .collect();
        let places = (0..data.len() - 1).filter(|&at| data[at] == 0x0F);
        let (taken, all) = places.fold((0, 0), |(taken, all), at| {
            (taken + usize::from(matches!(find(&data, &(0..data.len()), at), Found::At(_))), all + 1)
        });
        assert!(all > 3000 && taken * 20 < all, "{taken} of {all}");
    }
}
