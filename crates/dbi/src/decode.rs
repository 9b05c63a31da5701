//! Finds the instructions of one block, and says what becomes of the last one and of
//! those that leave it on the way.
//!
//! A block goes from its first instruction to the first that never lets the next one
//! follow: a jump, a call, a return. Conditional branches do not end it; their
//! branch leaves it by a side exit. So code that falls through its branches is one
//! piece, and what inserted code must save is known over more of it. A block has one
//! entry: a branch into its middle begins another block there.

use crate::error::{Error, Refusal};
use crate::host::Host;
use crate::relocate::legacy_prefixes;
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};

/// Instructions of a block, at most.
pub(crate) const INSTRUCTIONS: usize = 64;
/// Bytes of a block that compares them, unless it is a single instruction: those behind a branch are seldom reached.
pub(crate) const CHECKED_BYTES: u64 = 64;
/// Bytes of the longest instruction.
pub(crate) const LONGEST: usize = 15;

/// How an instruction goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// To the next one.
    Next,
    /// To the target, or to the next one, by flags.
    Conditional(u64),
    /// To the target, or to the next one, by rcx: `jrcxz`, `loop` and their kin.
    Counted(u64),
    /// To the target.
    Jump(u64),
    /// To the target, with the next address on the stack.
    Call(u64),
    /// To the address in its operand.
    IndirectJump,
    /// To the address in its operand, with the next address on the stack.
    IndirectCall,
    /// To the address on the stack; then this many bytes are dropped.
    Return(u16),
    /// Into the kernel, or to a trap: `syscall`, `int`, `ud2`.
    Trap,
}

/// The instructions of a block.
pub(crate) struct Block {
    pub(crate) start: u64,
    bytes: [u8; INSTRUCTIONS * LONGEST],
    instructions: [Instruction; INSTRUCTIONS],
    count: usize,
}

impl Block {
    /// Reads the block at `start`.
    pub(crate) fn read(host: &impl Host, start: u64) -> Result<Self, Error> {
        let mut block = Self {
            start,
            bytes: [0; INSTRUCTIONS * LONGEST],
            instructions: [Instruction::default(); INSTRUCTIONS],
            count: 0,
        };
        let length = host.read(start, &mut block.bytes).min(INSTRUCTIONS * LONGEST);
        if length == 0 {
            return Err(Error::Unreadable { ip: start });
        }
        let mut decoder = Decoder::with_ip(64, &block.bytes[..length], start, DecoderOptions::NONE);
        while block.count < INSTRUCTIONS && decoder.can_decode() {
            let instruction = decoder.decode();
            let at = (instruction.ip() - start) as usize;
            let short = is_short_branch(&instruction, &block.bytes[at..at + instruction.len()]);
            if let Err(why) = if short { Err(Refusal::ShortOperand) } else { flow(&instruction) } {
                // What comes before it runs; whether this one is ever reached nobody knows yet.
                if block.count > 0 {
                    break;
                }
                // An instruction whose end can't be read faults natively as it should.
                let cut = why == Refusal::Invalid && length < LONGEST;
                let ip = start;
                return Err(if cut { Error::Unreadable { ip } } else { Error::Refused { ip, why } });
            }
            block.instructions[block.count] = instruction;
            block.count += 1;
            if ends(&instruction) {
                break;
            }
        }
        Ok(block)
    }

    /// Leaves the second half of the instructions to another block. `false` if there is one only.
    pub(crate) fn shorten(&mut self) -> bool {
        let more = self.count > 1;
        self.count = self.count.div_ceil(2);
        more
    }

    /// Ends the block before the first instruction that reaches beyond `address`. `false` if that is the only one left.
    pub(crate) fn cut(&mut self, address: u64) -> bool {
        let count = self.instructions().iter().take_while(|instruction| instruction.next_ip() <= address).count();
        self.count = count.max(1);
        count > 0
    }

    /// Ends the block behind the first instruction that may change code, or behind which the processor sees changed
    /// code; so within it only others can have written. A write to the stack does not count: no program has its stack
    /// where it runs next.
    pub(crate) fn end_where_code_may_change(&mut self, factory: &mut InstructionInfoFactory) {
        let last = self.instructions().iter().position(|instruction| {
            let serializes = matches!(instruction.mnemonic(), Mnemonic::Cpuid | Mnemonic::Serialize);
            serializes || flow(instruction) == Ok(Flow::Trap) || writes(instruction, factory)
        });
        self.count = last.map_or(self.count, |last| last + 1);
        self.cut(self.start + CHECKED_BYTES);
    }

    /// The program's bytes from `from` to `to`, both in the block.
    pub(crate) fn bytes(&self, from: u64, to: u64) -> &[u8] {
        &self.bytes[(from - self.start) as usize..(to - self.start) as usize]
    }

    pub(crate) fn instructions(&self) -> &[Instruction] {
        &self.instructions[..self.count]
    }

    /// The instruction's bytes in the program.
    pub(crate) fn bytes_of(&self, instruction: &Instruction) -> &[u8] {
        let at = (instruction.ip() - self.start) as usize;
        &self.bytes[at..at + instruction.len()]
    }

    /// Behind the last instruction.
    pub(crate) fn end(&self) -> u64 {
        self.instructions().last().map_or(self.start, Instruction::next_ip)
    }
}

/// Whether the instruction writes to memory other than its function's stack.
fn writes(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> bool {
    factory.info(instruction).used_memory().iter().any(|memory| {
        let reads = matches!(memory.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess);
        let own =
            memory.base() == Register::RBP && memory.index() == Register::None && (memory.displacement() as i64) < 0;
        !reads && memory.base() != Register::RSP && !own
    })
}

/// Whether a block goes no further than this instruction.
fn ends(instruction: &Instruction) -> bool {
    use Flow as F;
    matches!(flow(instruction), Ok(F::Jump(_) | F::Call(_) | F::IndirectJump | F::IndirectCall | F::Return(_)) | Err(_))
}

/// Whether what comes behind the block's last instruction may be next.
pub(crate) fn goes_on(block: &Block) -> bool {
    !block.instructions().last().is_some_and(ends)
}

/// How an instruction goes on, or why it is refused.
pub(crate) fn flow(instruction: &Instruction) -> Result<Flow, Refusal> {
    if let Some(why) = refusal(instruction) {
        return Err(why);
    }
    let near = instruction.op_count() == 1 && instruction.op0_kind() == OpKind::NearBranch64;
    let target = if near { instruction.near_branch_target() } else { 0 };
    Ok(match instruction.flow_control() {
        FlowControl::UnconditionalBranch => Flow::Jump(target),
        FlowControl::ConditionalBranch if instruction.is_jcc_short_or_near() => Flow::Conditional(target),
        FlowControl::ConditionalBranch => Flow::Counted(target),
        FlowControl::IndirectBranch => Flow::IndirectJump,
        FlowControl::IndirectCall => Flow::IndirectCall,
        FlowControl::Call if near => Flow::Call(target),
        FlowControl::Return => Flow::Return(if instruction.op_count() == 1 { instruction.immediate16() } else { 0 }),
        FlowControl::Call | FlowControl::Interrupt | FlowControl::Exception => Flow::Trap,
        _ => Flow::Next,
    })
}

/// Whether a branch has the prefix that makes it one of 16 bits on some processors, and means nothing on others. With
/// REX.W it means nothing anywhere: so compilers pad the calls of `__tls_get_addr`.
fn is_short_branch(instruction: &Instruction, bytes: &[u8]) -> bool {
    let prefixes = legacy_prefixes(bytes);
    let wide = bytes.get(prefixes).is_some_and(|b| b & 0xF8 == 0x48);
    let branch = !matches!(
        instruction.flow_control(),
        FlowControl::Next | FlowControl::Interrupt | FlowControl::Exception | FlowControl::XbeginXabortXend
    );
    branch && !wide && bytes[..prefixes].contains(&0x66)
}

fn refusal(instruction: &Instruction) -> Option<Refusal> {
    use FlowControl as F;
    let code = instruction.code();
    let near = match instruction.flow_control() {
        F::Return => matches!(code, Code::Retnq | Code::Retnq_imm16),
        F::IndirectBranch => code == Code::Jmp_rm64,
        F::IndirectCall => code == Code::Call_rm64,
        _ => true,
    };
    let far_operand = matches!(instruction.op0_kind(), OpKind::FarBranch16 | OpKind::FarBranch32);
    let kernel = matches!(instruction.mnemonic(), Mnemonic::Sysret | Mnemonic::Sysexit | Mnemonic::Sysenter);
    if instruction.is_invalid() {
        return Some(Refusal::Invalid);
    }
    if !near || kernel || instruction.op_count() > 0 && far_operand {
        return Some(Refusal::Far);
    }
    if instruction.mnemonic() == Mnemonic::Xbegin {
        return Some(Refusal::Transaction);
    }
    let of_gs =
        |number| instruction.op_kind(number) == OpKind::Register && instruction.op_register(number) == Register::GS;
    if instruction.memory_segment() == Register::GS && uses_segment(instruction)
        || matches!(
            instruction.mnemonic(),
            Mnemonic::Rdgsbase | Mnemonic::Wrgsbase | Mnemonic::Swapgs | Mnemonic::Lgs | Mnemonic::Lkgs
        )
        || (0..instruction.op_count()).any(of_gs)
    {
        return Some(Refusal::ThreadArea);
    }
    (instruction.memory_base() == Register::EIP).then_some(Refusal::ShortInstructionPointer)
}

/// Whether the instruction's segment prefix means anything: `lea` and long no-operations may carry one for nothing.
fn uses_segment(instruction: &Instruction) -> bool {
    instruction.segment_prefix() == Register::GS
        && !matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop | Mnemonic::Reservednop)
}

#[cfg(test)]
mod tests;
