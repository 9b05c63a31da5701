//! What an instruction is about to store.
//!
//! Apart from what it touches: this is asked of watched lines alone. What stands there
//! behind the instruction may be another thread's already, so the operands are asked,
//! and what stands there before. What x87 registers hold, and what is computed on the
//! way to memory other than by integers, is not known here.

mod vector;

pub(crate) use vector::{packed, spanned};

use iced_x86::{ConditionCode, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use relive_dbi::{Context, Gpr, Visit, read_own_memory};

/// No instruction is longer.
const LONGEST: usize = 15;
const CARRY: u64 = 1;
const RSI: usize = 6;

/// The bytes that an access stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Nobody can tell, or nothing is stored.
    Unknown,
    /// These, from the first one on.
    Bytes([u8; 64]),
    /// So many of these, over and over.
    Repeated([u8; 8], usize),
    /// What stands from this address on.
    Copied(u64),
}

impl Stored {
    pub(crate) fn number(number: u64) -> Self {
        let mut bytes = [0; 64];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        Self::Bytes(bytes)
    }

    /// Those at `offset` from the first one of the access, which has so many more. Whether they are known.
    pub fn at(&self, offset: u64, into: &mut [u8]) -> bool {
        match *self {
            Self::Unknown => false,
            Self::Bytes(bytes) => {
                let there = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)?.get(..into.len()));
                there.map(|there| into.copy_from_slice(there)).is_some()
            }
            Self::Repeated(element, count) => {
                let bytes = (offset..).map(|at| element[at as usize % count]);
                into.iter_mut().zip(bytes).for_each(|(byte, there)| *byte = there);
                true
            }
            Self::Copied(from) => read_own_memory(from.wrapping_add(offset), into) == into.len(),
        }
    }

    /// The same for the part of the access that begins `offset` bytes, less than 64, behind its first.
    pub(crate) fn behind(self, offset: u64) -> Self {
        match self {
            Self::Bytes(bytes) => {
                let mut rest = [0; 64];
                let left = &bytes[offset as usize..];
                rest[..left.len()].copy_from_slice(left);
                Self::Bytes(rest)
            }
            Self::Copied(from) => Self::Copied(from.wrapping_add(offset)),
            other => other,
        }
    }
}

/// What the instruction at `context.ip` stores at `address`, in so many bytes side by side.
pub(crate) fn of(visit: &Visit<'_>, context: &Context, address: u64, bytes: u64) -> Stored {
    let instruction = instruction(context);
    if !matches!(bytes, 1 | 2 | 4 | 8) {
        let pair = || pair(&instruction, context, address).filter(|_| bytes == 16);
        return pair().unwrap_or_else(|| vector::whole(visit, context, &instruction, address));
    }
    if is_move_of_string(&instruction) {
        return Stored::Copied(context.general[RSI]);
    }
    let to_memory = instruction.op_count() > 0 && instruction.op0_kind() == OpKind::Memory;
    let Some(before) = before(address, bytes as usize) else { return Stored::Unknown };
    let store = Store { instruction, context, before, bits: bytes as u32 * 8 };
    let number = if to_memory { store.general().or_else(|| store.vector(visit)) } else { store.implicit() };
    let number = number.map(|number| number & store.mask());
    number.map_or_else(|| vector::whole(visit, context, &instruction, address), Stored::number)
}

pub(crate) fn instruction(context: &Context) -> Instruction {
    let mut code = [0; LONGEST];
    let count = read_own_memory(context.ip, &mut code);
    Decoder::with_ip(64, &code[..count], context.ip, DecoderOptions::NONE).decode()
}

fn before(address: u64, bytes: usize) -> Option<u64> {
    let mut word = [0; 8];
    (read_own_memory(address, &mut word[..bytes]) == bytes).then(|| u64::from_le_bytes(word))
}

/// Without a repeat.
fn is_move_of_string(instruction: &Instruction) -> bool {
    let moves = matches!(instruction.mnemonic(), Mnemonic::Movsb | Mnemonic::Movsw | Mnemonic::Movsd | Mnemonic::Movsq);
    moves && instruction.op_count() == 2 && instruction.op1_kind() == OpKind::MemorySegRSI
}

/// What `cmpxchg16b` leaves there.
fn pair(instruction: &Instruction, context: &Context, address: u64) -> Option<Stored> {
    let [rax, rcx, rdx, rbx, ..] = context.general;
    let there = [before(address, 8)?, before(address.wrapping_add(8), 8)?];
    let [low, high] = if there == [rax, rdx] { [rbx, rcx] } else { there };
    let mut bytes = [0; 64];
    bytes[..8].copy_from_slice(&low.to_le_bytes());
    bytes[8..16].copy_from_slice(&high.to_le_bytes());
    (instruction.mnemonic() == Mnemonic::Cmpxchg16b).then_some(Stored::Bytes(bytes))
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

    /// Of an instruction whose first operand is no memory that it names.
    fn implicit(&self) -> Option<u64> {
        let of_memory = self.instruction.op_count() > 1 && self.instruction.op1_kind() == OpKind::Memory;
        match self.instruction.mnemonic() {
            Mnemonic::Xchg if of_memory => self.operand(0),
            Mnemonic::Stosb | Mnemonic::Stosw | Mnemonic::Stosd | Mnemonic::Stosq => Some(self.context.general[0]),
            _ => None,
        }
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
            _ => return self.condition(),
        })
    }

    /// Of `setcc`.
    fn condition(&self) -> Option<u64> {
        let set = |bit: u32| self.context.flags >> bit & 1 != 0;
        let (carry, parity, zero, sign, overflow) = (set(0), set(2), set(6), set(7), set(11));
        let holds = match self.instruction.condition_code() {
            ConditionCode::None => return None,
            ConditionCode::o => overflow,
            ConditionCode::no => !overflow,
            ConditionCode::b => carry,
            ConditionCode::ae => !carry,
            ConditionCode::e => zero,
            ConditionCode::ne => !zero,
            ConditionCode::be => carry || zero,
            ConditionCode::a => !carry && !zero,
            ConditionCode::s => sign,
            ConditionCode::ns => !sign,
            ConditionCode::p => parity,
            ConditionCode::np => !parity,
            ConditionCode::l => sign != overflow,
            ConditionCode::ge => sign == overflow,
            ConditionCode::le => zero || sign != overflow,
            ConditionCode::g => !zero && sign == overflow,
        };
        Some(u64::from(holds))
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
