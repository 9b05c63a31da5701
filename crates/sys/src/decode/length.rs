//! How long an instruction is, and nothing else: a search through code asks that of
//! millions, one after the other.
//!
//! Apart because it answers from tables, for the encodings that compilers write most, and
//! leaves all others to [`Instruction::at`].

use super::{Instruction, LONGEST, has_byte, one_byte};

/// Operands stand behind the opcode.
const OPERANDS: u8 = 0x10;
/// Two bytes follow behind the operand size prefix, else four; eight for one that names a wide register.
const WORD: u8 = 0x20;
const WIDE_WORD: u8 = 0x40;
/// Not answered here.
const OTHER: u8 = 0x80;

/// By the opcode: bytes behind the operands in the low bits, and those above.
const ONE_BYTE: [u8; 256] = {
    let mut shapes = [OTHER; 256];
    let mut opcode = 0;
    while opcode < 256 {
        let byte = opcode as u8;
        // Where prefixes decide, or the operands do.
        let simple = !matches!(byte, 0x0F | 0x26 | 0x2E | 0x36 | 0x3E | 0x40..=0x4F | 0x62 | 0x64..=0x67 | 0x8F | 0xA0..=0xA3 | 0xC4 | 0xC5 | 0xF0..=0xF3 | 0xF6 | 0xF7);
        if simple
            && let (Some(long), Some(short)) = (one_byte(byte, 0, false, false, 8), one_byte(byte, 0, true, false, 8))
        {
            let operands = if long.1 { OPERANDS } else { 0 };
            shapes[opcode] = operands
                | match (long.0, short.0) {
                    (4, 2) if matches!(byte, 0xB8..=0xBF) => WORD | WIDE_WORD,
                    (4, 2) => WORD,
                    (bytes, _) => bytes as u8,
                };
        }
        opcode += 1;
    }
    shapes
};

/// The same behind `0F`.
const TWO_BYTES: [u8; 256] = {
    let mut shapes = [OTHER; 256];
    let mut opcode = 0;
    while opcode < 256 {
        let byte = opcode as u8;
        shapes[opcode] = match byte {
            0x10..=0x17
            | 0x1F
            | 0x28..=0x2F
            | 0x40..=0x76
            | 0x7E
            | 0x7F
            | 0x90..=0x9F
            | 0xA3..=0xA5
            | 0xAB..=0xAF
            | 0xB0..=0xB7
            | 0xBA..=0xC7
            | 0xD0..=0xFE => OPERANDS | has_byte(byte) as u8,
            0x80..=0x8F => 4,
            0x05 | 0x0B | 0x31 | 0xA2 | 0xC8..=0xCF => 0,
            _ => OTHER,
        };
        opcode += 1;
    }
    shapes
};

/// Bytes of the operands by their first, without a distance that a second one may call for.
const OPERAND_BYTES: [u8; 256] = {
    let mut bytes = [1; 256];
    let mut byte = 0;
    while byte < 0xC0 {
        let distance = match byte >> 6 {
            0 if byte & 7 == 5 => 4,
            0 => 0,
            1 => 1,
            _ => 4,
        };
        bytes[byte] = 1 + (byte & 7 == 4) as u8 + distance;
        byte += 1;
    }
    bytes
};

/// Bytes of the instruction at the start of `code`: as [`Instruction::at`] says.
#[inline]
pub fn length(code: &[u8]) -> Option<usize> {
    let other = || Instruction::at(code).map(|found| found.length);
    let Some(code) = code.first_chunk::<LONGEST>() else { return other() };
    let (mut at, mut short) = (0, false);
    while matches!(code[at], 0x66 | 0xF0 | 0xF2 | 0xF3) {
        short |= code[at] == 0x66;
        at += 1;
        if at == 3 {
            return other();
        }
    }
    let rex = if code[at] & 0xF0 == 0x40 { code[at] } else { 0 };
    at += usize::from(rex != 0);
    let mut shape = ONE_BYTE[usize::from(code[at])];
    if code[at] == 0x0F {
        at += 1;
        shape = TWO_BYTES[usize::from(code[at])];
    }
    if shape & OTHER != 0 {
        return other();
    }
    at += 1;
    let wide = rex & 8 != 0;
    let mut length = at + usize::from(shape & 0xF);
    if shape & WORD != 0 {
        length += match (shape & WIDE_WORD != 0 && wide, short && !wide) {
            (true, _) => 8,
            (false, true) => 2,
            (false, false) => 4,
        };
    }
    if shape & OPERANDS != 0 {
        let operands = code[at];
        length += usize::from(OPERAND_BYTES[usize::from(operands)]);
        length += if operands & 0xC7 == 4 && code[at + 1] & 7 == 5 { 4 } else { 0 };
    }
    if length <= LONGEST { Some(length) } else { other() }
}

#[cfg(test)]
mod tests {
    use super::length;
    use crate::decode::Instruction;
    use proptest::prelude::*;

    #[test]
    fn each_opcode_with_each_operands_and_prefixes_is_as_long_as_it_is() {
        const PREFIXES: [&[u8]; 9] = [
            &[],
            &[0x66],
            &[0x48],
            &[0x66, 0x48],
            &[0xF3],
            &[0xF0, 0x41],
            &[0x67],
            &[0xF2, 0x44],
            &[0x66, 0x66, 0x66, 0x2E],
        ];
        for prefix in PREFIXES {
            for map in [&[][..], &[0x0F], &[0x0F, 0x38], &[0xC5, 0xF8]] {
                for (opcode, operands) in
                    (0..=255u8).flat_map(|opcode| (0..=255u8).map(move |operands| (opcode, operands)))
                {
                    let rest = [opcode, operands, 0x25, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13];
                    let code = [prefix, map, &rest].concat();
                    assert_eq!(length(&code), Instruction::at(&code).map(|found| found.length), "{code:x?}");
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]
        #[test]
        fn any_bytes_are_as_long_as_they_are(code in prop::collection::vec(any::<u8>(), 0..24)) {
            prop_assert_eq!(length(&code), Instruction::at(&code).map(|found| found.length));
        }
    }
}
