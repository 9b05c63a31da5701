//! Instructions on bits: what a tool that keeps one bit a byte needs.
//!
//! Apart from the moves and branches that the translator itself writes. Those of BMI2
//! (`pext`, `shrx`, `shlx`) need a processor that has it; whoever writes them asks.

use super::{Assembler, Operand};
use crate::register::Gpr;

impl Assembler<'_> {
    /// An instruction of the map 0F38 with three operands, 64 bits; `prefix` is 1, 2 or 3 for 66, F3 or F2.
    fn three(&mut self, prefix: u8, opcode: u8, to: Gpr, other: Gpr, operand: Operand) {
        if operand.of_area {
            self.bytes(&[0x65]);
        }
        let base = operand.base.map_or(0, Gpr::high);
        let index = operand.index.map_or(0, |(index, _)| index.high());
        let registers = !(to.high() << 7 | index << 6 | base << 5) & 0xE0 | 2;
        self.bytes(&[0xC4, registers, 0x80 | (!other.number() & 15) << 3 | prefix, opcode]);
        self.operand(to.low(), operand);
    }

    /// `pext to, from, [mask]`: the bits of `from` that the mask has, side by side. BMI2; flags stay.
    pub fn extract(&mut self, to: Gpr, from: Gpr, mask: Operand) {
        self.three(2, 0xF5, to, from, mask);
    }

    /// `pdep to, from, [mask]`: the bits of `from` where the mask has some. BMI2; flags stay.
    pub fn deposit(&mut self, to: Gpr, from: Gpr, mask: Operand) {
        self.three(3, 0xF5, to, from, mask);
    }

    /// `kmovw to, k` or `kmovq to, k`: the lowest 16 bits of the mask register `mask`, or all 64. AVX-512, the latter its
    /// part for bytes and words; flags stay.
    pub fn from_mask(&mut self, to: Gpr, mask: u8, wide: bool) {
        let prefix = if wide { 0xFB } else { 0x78 };
        self.bytes(&[0xC4, !(to.high() << 7) & 0xE0 | 1, prefix, 0x93, 0xC0 | to.low() << 3 | mask & 7]);
    }

    /// `vmovmskps to, vector` or `vmovmskpd`: the signs of its elements of `element` bytes, 4 or 8, in its lowest 32 bytes.
    /// AVX; flags stay.
    pub fn from_signs(&mut self, to: Gpr, vector: u8, element: u8) {
        let registers = !(to.high() << 7 | vector >> 3 << 5) & 0xE0 | 1;
        let prefix = if element == 8 { 0x7D } else { 0x7C };
        self.bytes(&[0xC4, registers, prefix, 0x50, 0xC0 | to.low() << 3 | vector & 7]);
    }

    /// `imul register, register, by`. Changes flags.
    pub fn multiply_by(&mut self, register: Gpr, by: i32) {
        self.with_registers(true, &[0x69], register, register);
        self.bytes(&by.to_le_bytes());
    }

    /// `shrx to, [from], by`: by the low six bits of `by`. BMI2; flags stay.
    pub fn shifted_right(&mut self, to: Gpr, from: Operand, by: Gpr) {
        self.three(3, 0xF7, to, by, from);
    }

    /// `shlx to, [from], by`: by the low six bits of `by`. BMI2; flags stay.
    pub fn shifted_left(&mut self, to: Gpr, from: Operand, by: Gpr) {
        self.three(1, 0xF7, to, by, from);
    }

    /// `shlx to, to, by`: by the low six bits of `by`. BMI2; flags stay.
    pub fn shift_left_by(&mut self, to: Gpr, by: Gpr) {
        let registers = !(to.high() << 7 | to.high() << 5) & 0xE0 | 2;
        self.bytes(&[0xC4, registers, 0x80 | (!by.number() & 15) << 3 | 1, 0xF7, 0xC0 | to.low() << 3 | to.low()]);
    }

    /// `and register, with`, 32 bits: the upper half becomes zero. Changes flags.
    pub fn and_short(&mut self, register: Gpr, with: u32) {
        if let Ok(with) = i8::try_from(with) {
            self.with_registers(false, &[0x83], Gpr::numbered(4), register);
            self.bytes(&with.to_le_bytes());
        } else {
            self.with_registers(false, &[0x81], Gpr::numbered(4), register);
            self.bytes(&with.to_le_bytes());
        }
    }

    /// `bts register, bit`, 64 bits. Changes flags.
    pub fn set_bit(&mut self, register: Gpr, bit: u8) {
        self.with_registers(true, &[0x0F, 0xBA], Gpr::numbered(5), register);
        self.bytes(&[bit]);
    }

    /// `shl register, by`, 64 bits. Changes flags.
    pub fn shift_left(&mut self, register: Gpr, by: u8) {
        self.with_registers(true, &[0xC1], Gpr::numbered(4), register);
        self.bytes(&[by]);
    }

    /// `test register, with`, 64 bits. Changes flags.
    pub fn test_with(&mut self, register: Gpr, with: Gpr) {
        self.with_registers(true, &[0x85], with, register);
    }

    /// `and to, with`, 64 bits. Changes flags.
    pub fn and_with(&mut self, to: Gpr, with: Gpr) {
        self.with_registers(true, &[0x23], to, with);
    }

    /// `and to, [with]`, 64 bits. Changes flags.
    pub fn and(&mut self, to: Gpr, with: Operand) {
        self.with_memory(true, &[0x23], to.number(), with);
    }

    /// `xor to, with`, 64 bits. Changes flags.
    pub fn exclusive_or(&mut self, to: Gpr, with: Gpr) {
        self.with_registers(true, &[0x33], to, with);
    }

    /// `neg register`, 64 bits. Changes flags.
    pub fn negate(&mut self, register: Gpr) {
        self.with_registers(true, &[0xF7], Gpr::numbered(3), register);
    }

    /// `or [to], from`, 64 bits. Changes flags.
    pub fn or_to(&mut self, to: Operand, from: Gpr) {
        self.with_memory(true, &[0x09], from.number(), to);
    }

    /// `imul to, [by]`, 64 bits. Changes flags.
    pub fn multiply(&mut self, to: Gpr, by: Operand) {
        self.with_memory(true, &[0x0F, 0xAF], to.number(), by);
    }

    /// `test register, mask`: 8 bits if the mask has no more, else 32. Changes flags.
    pub fn test_register(&mut self, register: Gpr, mask: u32) {
        if let Ok(mask) = u8::try_from(mask) {
            self.with_registers(false, &[0xF6], Gpr::numbered(0), register);
            self.bytes(&[mask]);
        } else {
            self.with_registers(false, &[0xF7], Gpr::numbered(0), register);
            self.bytes(&mask.to_le_bytes());
        }
    }

    /// `cmp register, -1` with its lowest 8, 16, 32 or 64 bits. Changes flags.
    pub fn compare_with_ones(&mut self, register: Gpr, bits: u8) {
        if bits == 16 {
            self.bytes(&[0x66]);
        }
        let opcode = if bits == 8 { 0x80 } else { 0x83 };
        self.with_registers(bits == 64, &[opcode], Gpr::numbered(7), register);
        self.bytes(&[0xFF]);
    }

    /// `cmp qword [at], 0`. Changes flags.
    pub fn compare_with_zero(&mut self, at: Operand) {
        self.with_memory(true, &[0x83], 7, at);
        self.bytes(&[0]);
    }

    /// `bt [at], bit`: the carry flag becomes the bit with this number from the address on. Changes flags.
    pub fn test_bit(&mut self, at: Operand, bit: Gpr) {
        self.with_memory(true, &[0x0F, 0xA3], bit.number(), at);
    }
}
