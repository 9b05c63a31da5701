//! How long an x86-64 instruction is, and the few things about it that decide
//! whether it may be changed or moved.
//!
//! Apart because it knows the encoding and nothing else. What it does not know is
//! no instruction: whoever walks code stops there.

mod length;

pub use length::length;

/// The longest instruction.
pub const LONGEST: usize = 15;

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Bytes.
    pub length: usize,
    /// Where its opcode begins, behind the prefixes.
    pub opcode_at: usize,
    /// Which table of opcodes: 0 for one byte, 1 for `0F`, 2 for `0F 38`, 3 for `0F 3A`.
    pub map: u8,
    /// The opcode's last byte.
    pub opcode: u8,
    /// The byte that names its operands.
    pub operands: Option<u8>,
    /// `REX`, 0 if there is none.
    pub rex: u8,
    /// The operand size prefix.
    pub short: bool,
    /// `F2` or `F3`, 0 if there is none.
    pub repeat: u8,
    /// Its operand lies at a distance from itself.
    pub relative: bool,
}

const LEGACY: [u8; 11] = [0x66, 0x67, 0xF0, 0xF2, 0xF3, 0x2E, 0x36, 0x3E, 0x26, 0x64, 0x65];

impl Instruction {
    /// The instruction at the start of `code`; `None` if it is none, or is cut off.
    pub fn at(code: &[u8]) -> Option<Self> {
        let mut found = Self {
            length: 0,
            opcode_at: 0,
            map: 0,
            opcode: 0,
            operands: None,
            rex: 0,
            short: false,
            repeat: 0,
            relative: false,
        };
        let mut at = 0;
        let mut address_short = false;
        while LEGACY.contains(code.get(at)?) {
            match code[at] {
                0x66 => found.short = true,
                0x67 => address_short = true,
                repeat @ (0xF2 | 0xF3) => found.repeat = repeat,
                _ => {}
            }
            at += 1;
        }
        if code.get(at)? & 0xF0 == 0x40 {
            found.rex = code[at];
            at += 1;
        }
        found.opcode_at = at;
        let (immediate, has_operands) = match (*code.get(at)?, *code.get(at + 1).unwrap_or(&0)) {
            (0xC5 | 0xC4 | 0x62, _) => found.vector(code, &mut at)?,
            (0x8F, second) if second & 0x38 != 0 => found.extended(code, &mut at)?,
            (0x0F, second) => found.two_bytes(code, &mut at, second)?,
            (opcode, second) => {
                (found.opcode, at) = (opcode, at + 1);
                let address = if address_short { 4 } else { 8 };
                one_byte(opcode, second, found.short, found.rex & 8 != 0, address)?
            }
        };
        if has_operands {
            at += found.operand_bytes(code, at)?;
        }
        found.length = at + immediate;
        (found.length <= LONGEST.min(code.len())).then_some(found)
    }

    /// `0F …`: bytes of what stands behind the operands, and whether there are operands.
    fn two_bytes(&mut self, code: &[u8], at: &mut usize, second: u8) -> Option<(usize, bool)> {
        if matches!(second, 0x38 | 0x3A) {
            (self.map, self.opcode) = (if second == 0x38 { 2 } else { 3 }, *code.get(*at + 2)?);
            *at += 3;
            return Some((usize::from(second == 0x3A), true));
        }
        (self.map, self.opcode) = (1, second);
        *at += 2;
        Some(match second {
            0x04 | 0x0A | 0x0C | 0x24..=0x27 | 0x36 | 0x39 | 0x3B..=0x3F | 0x7A | 0x7B | 0xA6 | 0xA7 => return None,
            0x05..=0x09 | 0x0B | 0x0E | 0x30..=0x37 | 0x77 | 0xA0..=0xA2 | 0xA8..=0xAA | 0xC8..=0xCF => (0, false),
            0x80..=0x8F => (4, false),
            0x78 if self.short || self.repeat == 0xF2 => (2, true),
            0x0F => (1, true),
            _ => (usize::from(has_byte(second)), true),
        })
    }

    /// Instructions on vectors, behind `C4`, `C5` and `62`.
    fn vector(&mut self, code: &[u8], at: &mut usize) -> Option<(usize, bool)> {
        let (map, prefix) = match code[*at] {
            0xC5 => (1, 2),
            0xC4 => (*code.get(*at + 1)? & 0x1F, 3),
            _ => (*code.get(*at + 1)? & 7, 4),
        };
        // A prefix of another kind before it makes it none.
        if self.rex != 0 || self.short || !matches!(map, 1..=3 | 5 | 6) {
            return None;
        }
        self.opcode = *code.get(*at + prefix)?;
        self.map = map + 0x10;
        *at += prefix + 1;
        let bare = map == 1 && self.opcode == 0x77 && prefix < 4;
        Some((usize::from(map == 3 || map == 1 && has_byte(self.opcode)), !bare))
    }

    /// AMD's own, behind `8F`.
    fn extended(&mut self, code: &[u8], at: &mut usize) -> Option<(usize, bool)> {
        let map = code.get(*at + 1)? & 0x1F;
        self.opcode = *code.get(*at + 3)?;
        self.map = map + 0x20;
        *at += 4;
        match map {
            8 => Some((1, true)),
            9 => Some((0, true)),
            10 => Some((4, true)),
            _ => None,
        }
    }

    /// Bytes of the operands.
    fn operand_bytes(&mut self, code: &[u8], at: usize) -> Option<usize> {
        let operands = *code.get(at)?;
        self.operands = Some(operands);
        let (mode, place) = (operands >> 6, operands & 7);
        if mode == 3 {
            return Some(1);
        }
        self.relative = mode == 0 && place == 5;
        let (scaled, base) = if place == 4 { (1, *code.get(at + 1)? & 7) } else { (0, place) };
        let distance = match mode {
            0 if base == 5 => 4,
            0 => 0,
            1 => 1,
            _ => 4,
        };
        Some(1 + scaled + distance)
    }
}

/// Instructions of the tables `0F` and of its vector form with one more byte behind the operands.
const fn has_byte(opcode: u8) -> bool {
    matches!(opcode, 0x70..=0x73 | 0xA4 | 0xAC | 0xBA | 0xC2 | 0xC4..=0xC6)
}

/// Bytes behind the operands, and whether there are operands.
const fn one_byte(opcode: u8, operands: u8, short: bool, wide: bool, address: usize) -> Option<(usize, bool)> {
    let word = if short && !wide { 2 } else { 4 };
    Some(match opcode {
        0x06
        | 0x07
        | 0x0E
        | 0x16
        | 0x17
        | 0x1E
        | 0x1F
        | 0x27
        | 0x2F
        | 0x37
        | 0x3F
        | 0x60
        | 0x61
        | 0x62
        | 0x82
        | 0x9A
        | 0xC4
        | 0xC5
        | 0xCE
        | 0xD4..=0xD6
        | 0xEA => return None,
        0x00..=0x3F => match opcode & 7 {
            0..=3 => (0, true),
            4 => (1, false),
            _ => (word, false),
        },
        0x63 | 0x84..=0x8F | 0xD0..=0xD3 | 0xD8..=0xDF | 0xFE | 0xFF => (0, true),
        0x68 | 0xA9 => (word, false),
        0x69 | 0x81 | 0xC7 => (word, true),
        0x6B | 0x80 | 0x83 | 0xC0 | 0xC1 | 0xC6 => (1, true),
        0x6A | 0x70..=0x7F | 0xA8 | 0xB0..=0xB7 | 0xCD | 0xE0..=0xE7 | 0xEB => (1, false),
        0xA0..=0xA3 => (address, false),
        0xB8..=0xBF => (if wide { 8 } else { word }, false),
        0xC2 | 0xCA => (2, false),
        0xC8 => (3, false),
        0xE8 | 0xE9 => (4, false),
        0xF6 => ((operands & 0x30 == 0) as usize, true),
        0xF7 => (if operands & 0x30 == 0 { word } else { 0 }, true),
        _ => (0, false),
    })
}

#[cfg(test)]
mod tests {
    use super::Instruction;

    #[test]
    fn lengths_of_all_code_of_the_c_library_are_those_of_another_decoder() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.contains("r-xp") && line.contains("/libc")).expect("libc is mapped");
        let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let [start, end] = [start, end].map(|text| usize::from_str_radix(text, 16).unwrap());
        // SAFETY: code that stays mapped.
        let code = unsafe { std::slice::from_raw_parts(start as *const u8, end - start) };
        let (mut known, mut at) = (0, 0);
        let mut decoder = iced_x86::Decoder::new(64, code, iced_x86::DecoderOptions::NONE);
        while at < code.len() {
            decoder.set_position(at).unwrap();
            let theirs = decoder.decode();
            if theirs.is_invalid() {
                at += 1;
                continue;
            }
            let ours = Instruction::at(&code[at..]);
            let relative = theirs.is_ip_rel_memory_operand();
            assert_eq!(
                ours.map(|ours| (ours.length, ours.relative)),
                Some((theirs.len(), relative)),
                "{:x?}",
                &code[at..at + 15]
            );
            known += 1;
            at += theirs.len();
        }
        assert!(known > 100_000, "{known}");
    }

    #[test]
    fn what_is_none_has_no_length() {
        for code in [&[0x06][..], &[0x0F], &[0x0F, 0x04, 0], &[0x48], &[0xE8, 0, 0], &[0x66; 16]] {
            assert_eq!(Instruction::at(code), None, "{code:x?}");
        }
    }
}
