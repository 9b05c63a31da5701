//! Writes machine code: the few dozen instructions that translated and inserted code
//! need, each by its own bytes.
//!
//! iced's assembler takes tens of microseconds a block, allocates, and chooses
//! encodings itself; here each encoding is fixed, so that a displacement can be
//! patched later where it stands. Code is written where it will run. Once it does
//! not fit, the rest is dropped and [`Assembler::is_full`] says so: one check at the
//! end serves for all.

mod bits;

use crate::register::Gpr;

/// An address in memory that inserted code reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// Relative to the thread's area, which gs points to.
    of_area: bool,
    base: Option<Gpr>,
    index: Option<(Gpr, u8)>,
    displacement: i32,
}

impl Operand {
    /// `offset` bytes from the beginning of the thread's area.
    pub const fn area(offset: usize) -> Self {
        Self { of_area: true, base: None, index: None, displacement: offset as i32 }
    }

    /// In the thread's area at `offset` plus the value of `index`.
    pub const fn area_at(index: Gpr, offset: i32) -> Self {
        Self { of_area: true, base: Some(index), index: None, displacement: offset }
    }

    /// In the thread's area at `offset` plus `index` × `scale`; a scale of 1, 2, 4 or 8, an index other than rsp.
    pub const fn area_indexed(index: Gpr, scale: u8, offset: i32) -> Self {
        Self { of_area: true, base: None, index: Some((index, scale)), displacement: offset }
    }

    /// `displacement` bytes from where `base` points to.
    pub const fn at(base: Gpr, displacement: i32) -> Self {
        Self { of_area: false, base: Some(base), index: None, displacement }
    }

    /// `displacement` + `base` + `index` × `scale`; a scale of 1, 2, 4 or 8, an index other than rsp.
    pub const fn indexed(base: Option<Gpr>, index: Gpr, scale: u8, displacement: i32) -> Self {
        Self { of_area: false, base, index: Some((index, scale)), displacement }
    }
}

/// A condition, as the processor numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Condition {
    /// Unsigned less.
    Below = 2,
    /// Unsigned greater or equal.
    AboveOrEqual = 3,
    /// Equal, or zero.
    Equal = 4,
    /// Not equal, or not zero.
    NotEqual = 5,
}

impl Condition {
    /// The condition that holds if this one does not.
    #[must_use]
    pub const fn inverse(self) -> Self {
        match self {
            Self::Below => Self::AboveOrEqual,
            Self::AboveOrEqual => Self::Below,
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
        }
    }
}

/// A forward branch whose target is not written yet.
#[derive(Debug)]
#[must_use = "a branch that is never bound goes nowhere"]
pub struct Forward {
    /// Where its displacement ends.
    end: usize,
    short: bool,
}

/// Writes code into a slice that will run at a known address.
#[derive(Debug)]
pub struct Assembler<'a> {
    code: &'a mut [u8],
    address: u64,
    at: usize,
    full: bool,
}

impl<'a> Assembler<'a> {
    /// For code that will run at `address`.
    pub fn new(code: &'a mut [u8], address: u64) -> Self {
        Self { code, address, at: 0, full: false }
    }

    /// For code whose place is not known yet, of which `at` bytes are there.
    pub(crate) fn continuing(code: &'a mut [u8], at: usize, full: bool) -> Self {
        Self { code, address: 0, at, full }
    }

    /// Bytes written so far.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// The address of the next instruction.
    pub fn here(&self) -> u64 {
        self.address + self.at as u64
    }

    /// Whether something did not fit; what is there then is no code.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Says that something did not fit.
    pub(crate) fn overflow(&mut self) {
        self.full = true;
    }

    /// Bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) {
        match self.code.get_mut(self.at..self.at + bytes.len()) {
            Some(place) if !self.full => {
                place.copy_from_slice(bytes);
                self.at += bytes.len();
            }
            _ => self.full = true,
        }
    }

    /// No-operations until `offset() + ahead` is a multiple of `to`, as few as may be.
    pub(crate) fn align(&mut self, to: usize, ahead: usize) {
        const LONG: [&[u8]; 4] = [&[0x90], &[0x66, 0x90], &[0x0F, 0x1F, 0], &[0x0F, 0x1F, 0x40, 0]];
        loop {
            let here = self.address as usize + self.at + ahead;
            let gap = here.next_multiple_of(to) - here;
            if self.full || gap == 0 {
                return;
            }
            self.bytes(LONG[gap.min(LONG.len()) - 1]);
        }
    }

    /// Overwrites the four bytes at `offset`.
    pub(crate) fn patch(&mut self, offset: usize, value: i32) {
        if let Some(place) = self.code.get_mut(offset..offset + 4).filter(|_| !self.full) {
            place.copy_from_slice(&value.to_le_bytes());
        }
    }

    /// An instruction with a register and a memory operand. `opcode` may have several bytes.
    fn with_memory(&mut self, wide: bool, opcode: &[u8], register: u8, operand: Operand) {
        if operand.of_area {
            self.bytes(&[0x65]);
        }
        let base = operand.base.map_or(0, Gpr::high);
        let index = operand.index.map_or(0, |(index, _)| index.high());
        let rex = 0x40 | u8::from(wide) << 3 | (register >> 3) << 2 | index << 1 | base;
        // A byte register of number 4 to 7 without a prefix would be ah to bh; none of ours is meant so.
        if rex != 0x40 || register >= 4 {
            self.bytes(&[rex]);
        }
        self.bytes(opcode);
        self.operand(register & 7, operand);
    }

    fn operand(&mut self, register: u8, operand: Operand) {
        let far = operand.displacement.to_le_bytes();
        let near = i8::try_from(operand.displacement);
        let scale = |scale: u8| (scale.trailing_zeros() as u8) << 6;
        match (operand.base, operand.index) {
            (None, index) => {
                let bits = index.map_or(0x20, |(index, times)| scale(times) | index.low() << 3);
                self.bytes(&[register << 3 | 4, bits | 5]);
                self.bytes(&far);
            }
            (Some(base), index) => {
                let mode = match near {
                    Ok(0) if base.low() != 5 => 0,
                    Ok(_) => 0x40,
                    Err(_) => 0x80,
                };
                match index {
                    Some((index, times)) => {
                        self.bytes(&[mode | register << 3 | 4, scale(times) | index.low() << 3 | base.low()]);
                    }
                    None if base.low() == 4 => self.bytes(&[mode | register << 3 | 4, 0x24]),
                    None => self.bytes(&[mode | register << 3 | base.low()]),
                }
                match (mode, near) {
                    (0, _) => {}
                    (0x40, Ok(near)) => self.bytes(&near.to_le_bytes()),
                    _ => self.bytes(&far),
                }
            }
        }
    }

    fn with_registers(&mut self, wide: bool, opcode: &[u8], register: Gpr, other: Gpr) {
        self.bytes(&[0x40 | u8::from(wide) << 3 | register.high() << 2 | other.high()]);
        self.bytes(opcode);
        self.bytes(&[0xC0 | register.low() << 3 | other.low()]);
    }

    /// `mov to, [from]`, 64 bits.
    pub fn load(&mut self, to: Gpr, from: Operand) {
        self.with_memory(true, &[0x8B], to.number(), from);
    }

    /// `movzx to, byte [from]`, which leaves the flags alone.
    pub(crate) fn load_byte(&mut self, to: Gpr, from: Operand) {
        self.with_memory(false, &[0x0F, 0xB6], to.number(), from);
    }

    /// `mov [to], from`, 64 bits.
    pub fn store(&mut self, to: Operand, from: Gpr) {
        self.with_memory(true, &[0x89], from.number(), to);
    }

    /// `mov dword [to], value`.
    pub fn store_immediate(&mut self, to: Operand, value: u32) {
        self.with_memory(false, &[0xC7], 0, to);
        self.bytes(&value.to_le_bytes());
    }

    /// `lea to, [from]`, 64 bits.
    pub fn lea(&mut self, to: Gpr, from: Operand) {
        self.with_memory(true, &[0x8D], to.number(), from);
    }

    /// `lea to, [from]`, 32 bits: the upper half becomes zero.
    pub fn lea_short(&mut self, to: Gpr, from: Operand) {
        self.with_memory(false, &[0x8D], to.number(), from);
    }

    /// `mov to, from`, 64 bits.
    pub fn copy(&mut self, to: Gpr, from: Gpr) {
        self.with_registers(true, &[0x8B], to, from);
    }

    /// `mov to, value`, in the shortest form; flags stay.
    pub fn constant(&mut self, to: Gpr, value: u64) {
        if let Ok(value) = u32::try_from(value) {
            if to.high() != 0 {
                self.bytes(&[0x41]);
            }
            self.bytes(&[0xB8 | to.low()]);
            self.bytes(&value.to_le_bytes());
        } else if let Ok(value) = i32::try_from(value as i64) {
            self.bytes(&[0x48 | to.high(), 0xC7, 0xC0 | to.low()]);
            self.bytes(&value.to_le_bytes());
        } else {
            self.bytes(&[0x48 | to.high(), 0xB8 | to.low()]);
            self.bytes(&value.to_le_bytes());
        }
    }

    /// `movzx to, from` with the low 16 bits of `from`.
    pub(crate) fn low_word(&mut self, to: Gpr, from: Gpr) {
        self.with_registers(false, &[0x0F, 0xB7], to, from);
    }

    /// `not register`, which leaves the flags alone.
    pub fn not(&mut self, register: Gpr) {
        self.with_registers(true, &[0xF7], Gpr::numbered(2), register);
    }

    /// `shr register, by`. Changes flags.
    pub fn shift_right(&mut self, register: Gpr, by: u8) {
        self.with_registers(true, &[0xC1], Gpr::numbered(5), register);
        self.bytes(&[by]);
    }

    /// `add qword [to], value`. Changes flags.
    pub fn add_to(&mut self, to: Operand, value: i8) {
        self.with_memory(true, &[0x83], 0, to);
        self.bytes(&value.to_le_bytes());
    }

    /// `test byte [at], mask`. Changes flags.
    pub fn test(&mut self, at: Operand, mask: u8) {
        self.with_memory(false, &[0xF6], 0, at);
        self.bytes(&[mask]);
    }

    /// `cmp register, [with]`, 64 bits. Changes flags.
    pub fn compare(&mut self, register: Gpr, with: Operand) {
        self.with_memory(true, &[0x3B], register.number(), with);
    }

    /// `add register, [from]`, 64 bits. Changes flags.
    pub fn add_from(&mut self, register: Gpr, from: Operand) {
        self.with_memory(true, &[0x03], register.number(), from);
    }

    /// `prefetchw [at]`: a hint, which a processor without it passes over.
    pub fn fetch(&mut self, at: Operand) {
        self.with_memory(false, &[0x0F, 0x0D], 1, at);
    }

    /// `pop to`.
    pub(crate) fn pop(&mut self, to: Gpr) {
        if to.high() != 0 {
            self.bytes(&[0x41]);
        }
        self.bytes(&[0x58 | to.low()]);
    }

    /// `jmp [at]`.
    pub(crate) fn jump_through(&mut self, at: Operand) {
        self.with_memory(false, &[0xFF], 4, at);
    }

    /// `lahf; seto al`: all six arithmetic flags into ax.
    pub(crate) fn flags_to_rax(&mut self) {
        self.bytes(&[0x9F, 0x0F, 0x90, 0xC0]);
    }

    /// `add al, 127; sahf`: what [`Self::flags_to_rax`] kept.
    pub(crate) fn flags_from_rax(&mut self) {
        self.bytes(&[0x04, 0x7F, 0x9E]);
    }

    /// A jump to a known address of the cache.
    ///
    /// # Panics
    /// If it is further than two gigabytes from here, which no place of a cache is.
    pub fn jump_to(&mut self, target: u64) {
        let distance = target.wrapping_sub(self.here() + 5) as i64;
        assert!(i32::try_from(distance).is_ok(), "the cache is smaller than two gigabytes");
        self.bytes(&[0xE9]);
        self.bytes(&(distance as i32).to_le_bytes());
    }

    /// A near forward jump.
    pub fn jump(&mut self) -> Forward {
        self.bytes(&[0xE9, 0, 0, 0, 0]);
        Forward { end: self.at, short: false }
    }

    /// A near forward jump on a condition.
    pub fn jump_if(&mut self, condition: Condition) -> Forward {
        self.bytes(&[0x0F, 0x80 | condition as u8, 0, 0, 0, 0]);
        Forward { end: self.at, short: false }
    }

    /// A short forward jump if rcx is zero; flags stay.
    pub fn jump_if_rcx_zero(&mut self) -> Forward {
        self.bytes(&[0xE3, 0]);
        Forward { end: self.at, short: true }
    }

    /// A short forward jump.
    pub(crate) fn jump_short(&mut self) -> Forward {
        self.bytes(&[0xEB, 0]);
        Forward { end: self.at, short: true }
    }

    /// Lets a forward branch come out here. A short one reaches 127 bytes.
    #[allow(clippy::needless_pass_by_value)] // Each is bound once.
    pub fn bind(&mut self, branch: Forward) {
        let Forward { end, short } = branch;
        // Where the branch itself did not fit, there may be nothing before its end.
        if self.full {
            return;
        }
        let distance = self.at - end;
        if !short {
            self.patch(end - 4, distance as i32);
        } else if let Ok(distance) = i8::try_from(distance) {
            self.code[end - 1] = distance as u8;
        } else {
            self.full = true;
        }
    }
}

#[cfg(test)]
mod tests;
