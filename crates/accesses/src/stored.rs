//! The number that an instruction is about to store.
//!
//! Apart from what it touches: this is asked of watched lines alone. What stands there
//! behind the instruction may be another thread's already, so the operands are asked,
//! and what stands there before. Vectors wider than a word, strings and what depends
//! on flags other than the carry have no number here.

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use relive_dbi::{Context, Gpr, Visit, read_own_memory};

/// No instruction is longer.
const LONGEST: usize = 15;
const CARRY: u64 = 1;

/// What the instruction at `context.ip` stores at `address`, in so many bytes.
pub(crate) fn number(visit: &Visit<'_>, context: &Context, address: u64, bytes: u64) -> Option<u64> {
    if !matches!(bytes, 1 | 2 | 4 | 8) {
        return None;
    }
    let mut code = [0; LONGEST];
    let count = read_own_memory(context.ip, &mut code);
    let instruction = Decoder::with_ip(64, &code[..count], context.ip, DecoderOptions::NONE).decode();
    let to_memory = instruction.op_count() > 0 && instruction.op0_kind() == OpKind::Memory;
    let store = Store { instruction, context, before: before(address, bytes as usize)?, bits: bytes as u32 * 8 };
    let number = if to_memory { store.general().or_else(|| store.vector(visit)) } else { store.exchange() };
    number.map(|number| number & store.mask())
}

fn before(address: u64, bytes: usize) -> Option<u64> {
    let mut word = [0; 8];
    (read_own_memory(address, &mut word[..bytes]) == bytes).then(|| u64::from_le_bytes(word))
}

struct Store<'a> {
    instruction: Instruction,
    context: &'a Context,
    /// What stands there.
    before: u64,
    bits: u32,
}

impl Store<'_> {
    fn mask(&self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// A general register or a constant.
    fn operand(&self, number: u32) -> Option<u64> {
        match self.instruction.op_kind(number) {
            OpKind::Register => {
                let register = self.instruction.op_register(number);
                let value = self.context.general[usize::from(Gpr::containing(register)?.number())];
                let high = matches!(register, Register::AH | Register::BH | Register::CH | Register::DH);
                Some(if high { value >> 8 } else { value })
            }
            _ => self.instruction.try_immediate(number).ok(),
        }
    }

    /// Of an instruction whose second operand is in memory.
    fn exchange(&self) -> Option<u64> {
        let of_memory = self.instruction.op_count() > 1 && self.instruction.op1_kind() == OpKind::Memory;
        (of_memory && self.instruction.mnemonic() == Mnemonic::Xchg).then(|| self.operand(0)).flatten()
    }

    fn general(&self) -> Option<u64> {
        let before = self.before;
        let carry = self.context.flags & CARRY;
        let count = || Some((self.operand(1)? & if self.bits == 64 { 63 } else { 31 }) as u32);
        Some(match self.instruction.mnemonic() {
            Mnemonic::Mov | Mnemonic::Movnti | Mnemonic::Xchg => self.operand(1)?,
            Mnemonic::Movbe => self.operand(1)?.swap_bytes() >> (64 - self.bits),
            Mnemonic::Add | Mnemonic::Xadd => before.wrapping_add(self.operand(1)?),
            Mnemonic::Adc => before.wrapping_add(self.operand(1)?).wrapping_add(carry),
            Mnemonic::Sub => before.wrapping_sub(self.operand(1)?),
            Mnemonic::Sbb => before.wrapping_sub(self.operand(1)?).wrapping_sub(carry),
            Mnemonic::And => before & self.operand(1)?,
            Mnemonic::Or => before | self.operand(1)?,
            Mnemonic::Xor => before ^ self.operand(1)?,
            Mnemonic::Inc => before.wrapping_add(1),
            Mnemonic::Dec => before.wrapping_sub(1),
            Mnemonic::Not => !before,
            Mnemonic::Neg => before.wrapping_neg(),
            // Beyond the operand's own bits nothing is left.
            Mnemonic::Shl | Mnemonic::Sal => before.checked_shl(count()?).unwrap_or(0),
            Mnemonic::Shr => before.checked_shr(count()?).unwrap_or(0),
            Mnemonic::Cmpxchg => {
                let same = (before ^ self.context.general[0]) & self.mask() == 0;
                if same { self.operand(1)? } else { before }
            }
            _ => return None,
        })
    }

    /// Moves of a vector's lowest word, or of the one above it.
    fn vector(&self, visit: &Visit<'_>) -> Option<u64> {
        use Mnemonic::{
            Movd, Movhpd, Movhps, Movlpd, Movlps, Movq, Movsd, Movss, Vmovd, Vmovhpd, Vmovhps, Vmovlpd, Vmovlps, Vmovq,
            Vmovsd, Vmovss,
        };
        let word = match self.instruction.mnemonic() {
            Movd | Movq | Movss | Movsd | Movlps | Movlpd | Vmovd | Vmovq | Vmovss | Vmovsd | Vmovlps | Vmovlpd => 0,
            Movhps | Movhpd | Vmovhps | Vmovhpd => 1,
            _ => return None,
        };
        let register = self.instruction.op1_register();
        if register.is_gpr() {
            return self.operand(1);
        }
        let number = register.is_vector_register().then(|| register.number())?;
        let words = visit.vector(number);
        words.as_chunks::<8>().0.get(word).map(|bytes| u64::from_le_bytes(*bytes))
    }
}
