//! Which memory an instruction names, and whether it changes it indivisibly.
//!
//! Apart because it is about their encoding alone.

use crate::decode::Instruction;

/// Number of a register that there is none of.
pub(super) const NONE: u8 = 16;
const RSP: u8 = 4;
const LOCK: u8 = 0xF0;
/// Prefixes: the segment of what nobody uses, and short addresses.
const ELSEWHERE: [u8; 2] = [0x65, 0x67];
/// The prefix of a thread's own storage, which others may reach by its address.
const OWN: u8 = 0x64;

/// An operand in memory: `base + index * scale + distance`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Operand {
    /// From the end of the instruction, if it has neither base nor index and [`Operand::relative`].
    pub(super) distance: i64,
    pub(super) base: u8,
    pub(super) index: u8,
    pub(super) scale: u8,
    pub(super) relative: bool,
    /// From the thread pointer besides.
    own: bool,
}

/// An instruction with one operand in memory, which may run elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Its bytes.
    pub length: usize,
    /// What it accesses.
    pub operand: Operand,
}

impl Access {
    /// The instruction at the start of `code`, if it is one of these: of those with the older encodings, and neither a call
    /// nor a jump.
    pub fn at(code: &[u8]) -> Option<Self> {
        let (found, operands) = with_memory(code)?;
        let part = operands >> 3 & 7;
        let names_memory = match (found.map, found.opcode) {
            (0, 0x8D | 0x8F) | (1, 0x00 | 0x01 | 0x0D | 0x18..=0x1F | 0xAE) => false,
            (0, 0xFF) => matches!(part, 0 | 1 | 6),
            (map, _) => map < 2,
        };
        let operand = Operand::of(&found, code, operands).filter(|_| names_memory)?;
        Some(Self { length: found.length, operand })
    }

    /// The same if it is indivisible: behind a lock prefix, or `xchg` with memory. Those that are there for their fence alone
    /// are not.
    pub fn indivisible_at(code: &[u8]) -> Option<Self> {
        let (found, operands) = with_memory(code)?;
        let is_locked = code[..found.opcode_at].contains(&LOCK);
        if !if is_locked { may_be_locked(&found, operands) } else { exchanges(&found) } {
            return None;
        }
        let operand = Operand::of(&found, code, operands)?;
        (!is_fence(&found, code, operands, &operand)).then_some(Self { length: found.length, operand })
    }
}

/// The instruction at the start of `code`, and the byte that names its operands, if one of them lies in memory that can be
/// found.
fn with_memory(code: &[u8]) -> Option<(Instruction, u8)> {
    let found = Instruction::at(code)?;
    let operands = found.operands.filter(|operands| operands >> 6 != 3)?;
    let is_elsewhere = code[..found.opcode_at].iter().any(|prefix| ELSEWHERE.contains(prefix));
    (!is_elsewhere).then_some((found, operands))
}

/// `xchg`, which is indivisible by itself.
fn exchanges(found: &Instruction) -> bool {
    found.map == 0 && matches!(found.opcode, 0x86 | 0x87)
}

/// Whether the processor takes a lock prefix there; what looks like one elsewhere is data.
fn may_be_locked(found: &Instruction, operands: u8) -> bool {
    let part = operands >> 3 & 7;
    match (found.map, found.opcode) {
        (0, 0x80 | 0x81 | 0x83) => part != 7,
        (0, 0xF6 | 0xF7) => matches!(part, 2 | 3),
        (0, 0xFE | 0xFF) => matches!(part, 0 | 1),
        (0, opcode) if opcode < 0x38 => opcode & 7 < 2,
        (0, 0x86 | 0x87) | (1, 0xAB | 0xB0 | 0xB1 | 0xB3 | 0xBB | 0xC0 | 0xC1) => true,
        (1, 0xBA) => matches!(part, 5..=7),
        (1, 0xC7) => part == 1,
        _ => false,
    }
}

/// `lock or qword ptr [rsp], 0` and kin, which compilers write for a fence.
fn is_fence(found: &Instruction, code: &[u8], operands: u8, operand: &Operand) -> bool {
    let changes_nothing = matches!(operands >> 3 & 7, 0 | 1 | 5 | 6) && code[found.length - 1] == 0;
    found.map == 0 && matches!(found.opcode, 0x80 | 0x81 | 0x83) && changes_nothing && operand.base == RSP
}

impl Operand {
    fn of(found: &Instruction, code: &[u8], operands: u8) -> Option<Self> {
        let (mode, rest) = (operands >> 6, operands & 7);
        let mut at = found.opcode_at + if found.map == 0 { 2 } else { 3 };
        let own = code[..found.opcode_at].contains(&OWN);
        let base = rest | (found.rex & 1) << 3;
        let mut operand = Self { distance: 0, base, index: NONE, scale: 1, relative: false, own };
        let mut bare = rest == 5;
        if rest == RSP {
            let byte = *code.get(at)?;
            at += 1;
            let index = byte >> 3 & 7 | (found.rex & 2) << 2;
            operand.base = byte & 7 | (found.rex & 1) << 3;
            operand.scale = 1 << (byte >> 6);
            operand.index = if index == RSP { NONE } else { index };
            bare = byte & 7 == 5;
        }
        operand.distance = match mode {
            0 if bare => {
                operand.base = NONE;
                operand.relative = found.relative;
                i64::from(i32::from_le_bytes(*code.get(at..)?.first_chunk()?))
            }
            0 => 0,
            1 => i64::from(*code.get(at)? as i8),
            _ => i64::from(i32::from_le_bytes(*code.get(at..)?.first_chunk()?)),
        };
        Some(operand)
    }

    /// Its address, where a register has this content. Nothing is relative any more.
    pub(super) fn address(&self, register: impl Fn(usize) -> u64) -> usize {
        let value = |number: u8| if number == NONE { 0 } else { register(usize::from(number)) };
        let index = value(self.index).wrapping_mul(u64::from(self.scale));
        let own = if self.own { crate::tls::thread_pointer() as u64 } else { 0 };
        value(self.base).wrapping_add(index).wrapping_add_signed(self.distance).wrapping_add(own) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::Access;
    use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind, Register};
    use proptest::prelude::*;

    fn is_locked(code: &[u8]) -> bool {
        Access::indivisible_at(code).is_some()
    }

    #[test]
    fn fences_and_registers_are_none() {
        assert!(is_locked(&[0xF0, 0x0F, 0xC1, 0x47, 0x10]), "lock xadd [rdi + 16], eax");
        assert!(is_locked(&[0x87, 0x06]), "xchg [rsi], eax");
        assert!(is_locked(&[0xF0, 0x48, 0x0F, 0xC7, 0x0F]), "lock cmpxchg16b [rdi]");
        assert!(is_locked(&[0xF0, 0x83, 0x44, 0x24, 0x08, 0x01]), "lock add [rsp + 8], 1");
        assert!(!is_locked(&[0xF0, 0x83, 0x0C, 0x24, 0x00]), "lock or [rsp], 0");
        assert!(!is_locked(&[0x87, 0xC6]), "xchg esi, eax");
        assert!(is_locked(&[0x64, 0xF0, 0x0F, 0xB1, 0x0F]), "lock cmpxchg fs:[rdi], ecx");
        assert!(!is_locked(&[0x65, 0xF0, 0x0F, 0xB1, 0x0F]), "lock cmpxchg gs:[rdi], ecx");
        assert!(!is_locked(&[0x0F, 0xC1, 0x07]), "xadd [rdi], eax");
        assert!(!is_locked(&[0xF0, 0x8B, 0x07]), "no instruction");
    }

    /// What another decoder says of the operand's address, each register holding its number times a million.
    fn told(code: &[u8]) -> Option<(usize, u64)> {
        let mut decoder = Decoder::with_ip(64, code, 0x10_0000, DecoderOptions::NONE);
        let found = decoder.decode();
        let memory = (0..found.op_count()).any(|operand| found.op_kind(operand) == OpKind::Memory);
        let indivisible = found.has_lock_prefix() || found.mnemonic() == Mnemonic::Xchg;
        if found.is_invalid() || !memory || !indivisible || found.has_segment_prefix() {
            return None;
        }
        let value = |register: Register, _, _| {
            Some(if register.is_segment_register() { 0 } else { register.number() as u64 * 1_000_000 })
        };
        let operand = (0..found.op_count()).find(|&operand| found.op_kind(operand) == OpKind::Memory)?;
        Some((found.len(), found.virtual_address(operand, 0, value)?))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn another_decoder_agrees(
            rex in prop::option::of(0x40u8..0x50),
            opcode in prop::sample::select(vec![
                vec![0x01], vec![0x31], vec![0x83], vec![0x81], vec![0x87], vec![0xFF], vec![0xF7],
                vec![0x0F, 0xB1], vec![0x0F, 0xC1], vec![0x0F, 0xBA], vec![0x0F, 0xC7], vec![0x0F, 0xAB],
            ]),
            rest in prop::collection::vec(any::<u8>(), 10),
        ) {
            let code: Vec<u8> = [0xF0].into_iter().chain(rex).chain(opcode).chain(rest).collect();
            if let Some(locked) = Access::indivisible_at(&code) {
                let mut operand = locked.operand;
                if operand.relative {
                    operand.distance += 0x10_0000 + locked.length as i64;
                }
                let address = operand.address(|number| number as u64 * 1_000_000);
                prop_assert_eq!(told(&code), Some((locked.length, address as u64)));
            } else if let Some(found) = told(&code) {
                // Fences, and a prefix that the instruction would not have by a compiler.
                prop_assert!(code[found.0 - 1] == 0, "{:x?}", code);
            }
        }
    }
}
