//! Copies an instruction so that it does the same somewhere else.
//!
//! Only addresses relative to rip depend on where an instruction stands. Where the
//! new place is within two gigabytes of what is addressed, the displacement changes
//! and nothing else. What lies in the lowest two gigabytes, as programs do that were
//! linked to a fixed address, is addressed absolutely, by an operand that is one byte
//! longer. Elsewhere the operand byte is rewritten: a displacement of 32
//! bits from rip (mode 00, register 101) has the same length as one from a low
//! register (mode 10), so a register that the instruction does not use is given the
//! address, and the displacement is zero.

use crate::decode::{Block, LONGEST};
use crate::register::{Gpr, GprSet};
use crate::writer::Writer;
use iced_x86::{Code, Decoder, DecoderOptions, Instruction};

/// Copies the instruction. `used` are its registers, `dead` those that nobody needs before or behind it.
pub(crate) fn copy(w: &mut Writer<'_>, block: &Block, instruction: &Instruction, used: GprSet, dead: GprSet) {
    let bytes = block.bytes_of(instruction);
    if !instruction.is_ip_rel_memory_operand() {
        return w.code.bytes(bytes);
    }
    let target = instruction.ip_rel_memory_address();
    let to = Gpr::containing(instruction.op0_register());
    match (instruction.code(), to) {
        (Code::Lea_r64_m, Some(to)) => return w.code.constant(to, target),
        (Code::Lea_r32_m, Some(to)) => return w.code.constant(to, target & 0xFFFF_FFFF),
        _ => {}
    }
    let mut moved = [0; LONGEST];
    let moved = &mut moved[..bytes.len()];
    moved.copy_from_slice(bytes);
    let at = displacement_of(bytes);
    let distance = target.wrapping_sub(w.code.here() + bytes.len() as u64) as i64;
    if let Ok(distance) = i32::try_from(distance) {
        moved[at..at + 4].copy_from_slice(&distance.to_le_bytes());
        return w.code.bytes(moved);
    }
    if let (Ok(absolute), true) = (i32::try_from(target), bytes.len() < LONGEST) {
        let mut longer = [0; LONGEST];
        return w.code.bytes(point_absolutely(bytes, at, absolute, &mut longer));
    }
    // rsp can't stand in an operand without a further byte.
    let low = || (0..8).map(Gpr::numbered).filter(|&r| r != Gpr::RSP && !used.contains(r));
    let free = dead.union(w.spilled());
    let base = low().find(|&r| free.contains(r)).or_else(|| low().next());
    let base = base.expect("no instruction with a rip-relative operand uses all low registers");
    // It comes back when the block needs it.
    if !free.contains(base) && !w.spill(base) {
        w.bring_back(GprSet::ALL, true);
        let spilled = w.spill(base);
        assert!(spilled, "all words are free");
    }
    w.code.constant(base, target);
    point_at(moved, at, base);
    w.code.bytes(moved);
}

/// Where the displacement of a rip-relative operand stands.
fn displacement_of(bytes: &[u8]) -> usize {
    let mut decoder = Decoder::new(64, bytes, DecoderOptions::NONE);
    let instruction = decoder.decode();
    decoder.get_constant_offsets(&instruction).displacement_offset()
}

/// The instruction with an absolute address in place of the rip-relative operand whose displacement stands at `at`.
fn point_absolutely<'a>(bytes: &[u8], at: usize, address: i32, into: &'a mut [u8; LONGEST]) -> &'a [u8] {
    let into = &mut into[..=bytes.len()];
    into[..at].copy_from_slice(&bytes[..at]);
    into[at + 1..].copy_from_slice(&bytes[at..]);
    // A byte for base and index follows, which has neither.
    into[at - 1] = into[at - 1] & 0x38 | 4;
    into[at] = 0x25;
    into[at + 1..at + 5].copy_from_slice(&address.to_le_bytes());
    clear_upper(into);
    into
}

/// Turns the rip-relative operand whose displacement stands at `at` into one at `base`, which is one of the low eight.
fn point_at(bytes: &mut [u8], at: usize, base: Gpr) {
    bytes[at - 1] = bytes[at - 1] & 0x38 | 0x80 | base.low();
    bytes[at..at + 4].fill(0);
    clear_upper(bytes);
}

/// The bits for the upper eight of base and index meant nothing with rip.
fn clear_upper(bytes: &mut [u8]) {
    let prefixes = legacy_prefixes(bytes);
    match bytes[prefixes] {
        0x40..=0x4F => bytes[prefixes] &= !3,
        // In these they are inverted.
        0xC4 | 0x62 => bytes[prefixes + 1] |= 0x60,
        _ => {}
    }
}

/// How many prefix bytes other than REX an instruction begins with.
pub(crate) fn legacy_prefixes(bytes: &[u8]) -> usize {
    let is_prefix = |b: &&u8| matches!(b, 0x66 | 0x67 | 0xF0 | 0xF2 | 0xF3 | 0x2E | 0x36 | 0x3E | 0x26 | 0x64 | 0x65);
    bytes.iter().take_while(is_prefix).count()
}

/// The operation byte behind prefixes and REX, as its index.
pub(crate) fn operation(bytes: &[u8]) -> usize {
    let at = legacy_prefixes(bytes);
    at + usize::from(bytes[at] & 0xF0 == 0x40)
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, displacement_of, point_absolutely, point_at};
    use crate::register::Gpr;
    use iced_x86::{Decoder, DecoderOptions, Instruction, Register};

    fn same_registers(before: &Instruction, after: &Instruction) {
        for n in (0..before.op_count()).filter(|&n| before.op_kind(n) != iced_x86::OpKind::Memory) {
            assert_eq!(after.op_register(n), before.op_register(n), "{before:?}");
        }
    }

    #[test]
    fn an_operand_becomes_another_in_every_encoding() {
        let cases: [&[u8]; 8] = [
            &[0x8B, 0x05, 1, 2, 3, 4],                            // mov eax, [rip]
            &[0x4F, 0x8B, 0x3D, 1, 2, 3, 4],                      // mov r15, [rip], with the bits that mean nothing
            &[0x66, 0x41, 0x81, 0x05, 1, 2, 3, 4, 9, 8],          // add word [rip], 0809h
            &[0xF3, 0x0F, 0x10, 0x0D, 1, 2, 3, 4],                // movss xmm1, [rip]
            &[0xC5, 0xFD, 0x6F, 0x05, 1, 2, 3, 4],                // vmovdqa ymm0, [rip]
            &[0xC4, 0x82, 0x7D, 0x18, 0x05, 1, 2, 3, 4],          // vbroadcastss ymm0, [rip], with those
            &[0x62, 0xD1, 0x7D, 0x48, 0x6F, 0x05, 1, 2, 3, 4],    // vmovdqa32 zmm0, [rip]
            &[0x62, 0xF3, 0x7D, 0x48, 0x25, 0x05, 1, 2, 3, 4, 7], // vpternlogd zmm0, zmm0, [rip], 7
        ];
        for bytes in cases {
            let before = Decoder::new(64, bytes, DecoderOptions::NONE).decode();
            assert!(before.is_ip_rel_memory_operand(), "{bytes:x?}");
            for base in [Gpr::RAX, Gpr::RBP, Gpr::RDI] {
                let mut moved = bytes.to_vec();
                point_at(&mut moved, displacement_of(bytes), base);
                let after = Decoder::new(64, &moved, DecoderOptions::NONE).decode();
                assert_eq!((after.code(), after.len()), (before.code(), before.len()), "{bytes:x?}");
                assert_eq!(Gpr::containing(after.memory_base()), Some(base), "{bytes:x?}");
                assert_eq!((after.memory_index(), after.memory_displacement64()), (Register::None, 0));
                same_registers(&before, &after);
            }
            let mut longer = [0; LONGEST];
            let moved = point_absolutely(bytes, displacement_of(bytes), 0x7654_3210, &mut longer);
            let after = Decoder::new(64, moved, DecoderOptions::NONE).decode();
            assert_eq!((after.code(), after.len()), (before.code(), before.len() + 1), "{bytes:x?}");
            assert_eq!((after.memory_base(), after.memory_index()), (Register::None, Register::None), "{bytes:x?}");
            assert_eq!(after.memory_displacement64(), 0x7654_3210, "{bytes:x?}");
            same_registers(&before, &after);
        }
    }
}
