//! Counts the instructions that synchronise without a call.
//!
//! Apart because only this needs a disassembler. It sweeps the code sections
//! from start to end: data between functions may add a few that are none, so
//! the figures are an estimate of how much is not seen, never a proof.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use serde::Serialize;
use std::ops::AddAssign;

/// Number of the futex system call.
const FUTEX: u64 = 202;
/// A number is taken for a system call's if it was loaded this few instructions before.
const REACH: u64 = 24;

/// What was found in the code of a module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CodeCounts {
    /// Instructions looked at.
    pub instructions: u64,
    /// Instructions with a `lock` prefix.
    pub locked: u64,
    /// `xchg` with memory, which locks without a prefix.
    pub exchanges: u64,
    /// `syscall` instructions.
    pub syscalls: u64,
    /// Those of them, and of the calls of the function `syscall`, that are given the number of futex.
    pub futexes: u64,
}

impl AddAssign for CodeCounts {
    fn add_assign(&mut self, other: Self) {
        self.instructions += other.instructions;
        self.locked += other.locked;
        self.exchanges += other.exchanges;
        self.syscalls += other.syscalls;
        self.futexes += other.futexes;
    }
}

/// Counts in `bytes`, which are loaded at `address`; `calls_syscall` tells whether a call goes to the function `syscall`.
pub(super) fn count(bytes: &[u8], address: u64, mut calls_syscall: impl FnMut(&Instruction) -> bool) -> CodeCounts {
    let mut counts = CodeCounts::default();
    let mut number = Loaded::of(Register::RAX);
    let mut argument = Loaded::of(Register::RDI);
    let mut instruction = Instruction::default();
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        let now = counts.instructions;
        counts.instructions += 1;
        counts.locked += u64::from(instruction.has_lock_prefix());
        match instruction.mnemonic() {
            // A lock prefix before an exchange is allowed and changes nothing: counted once.
            Mnemonic::Xchg if is_memory(&instruction) && !instruction.has_lock_prefix() => counts.exchanges += 1,
            Mnemonic::Syscall => {
                counts.syscalls += 1;
                counts.futexes += u64::from(number.is(FUTEX, now));
            }
            Mnemonic::Call | Mnemonic::Jmp if argument.is(FUTEX, now) && calls_syscall(&instruction) => {
                counts.futexes += 1;
            }
            _ => {}
        }
        number.follow(&instruction, now);
        argument.follow(&instruction, now);
    }
    counts
}

/// A constant that a register holds, as far as a straight look tells.
struct Loaded {
    register: Register,
    value: Option<(u64, u64)>,
}

impl Loaded {
    fn of(register: Register) -> Self {
        Self { register, value: None }
    }

    fn is(&self, wanted: u64, now: u64) -> bool {
        self.value.is_some_and(|(value, at)| value == wanted && now - at <= REACH)
    }

    fn follow(&mut self, instruction: &Instruction, now: u64) {
        if matches!(instruction.mnemonic(), Mnemonic::Call | Mnemonic::Syscall) {
            // A callee may leave anything in it.
            self.value = None;
            return;
        }
        let writes = instruction.op_count() > 0
            && instruction.op0_kind() == OpKind::Register
            && instruction.op0_register().full_register() == self.register
            && !matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Push);
        if writes {
            let constant = matches!(
                instruction.code(),
                Code::Mov_r32_imm32 | Code::Mov_rm32_imm32 | Code::Mov_r64_imm64 | Code::Mov_rm64_imm32
            );
            self.value = constant.then(|| (instruction.immediate(1), now));
        }
    }
}

fn is_memory(instruction: &Instruction) -> bool {
    (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory)
}

#[cfg(test)]
mod tests {
    use super::{CodeCounts, count};

    #[test]
    fn each_kind_is_counted_once() {
        let code = [
            &[0xF0, 0x0F, 0xB1, 0x0F][..],            // lock cmpxchg [rdi], ecx
            &[0xF0, 0x48, 0x0F, 0xC1, 0x07],          // lock xadd [rdi], rax
            &[0x87, 0x07],                            // xchg [rdi], eax
            &[0x87, 0xC1],                            // xchg ecx, eax
            &[0xB8, 0xCA, 0, 0, 0, 0x0F, 0x05],       // mov eax, 202; syscall
            &[0xB8, 0x01, 0, 0, 0, 0x0F, 0x05],       // mov eax, 1; syscall
            &[0xBF, 0xCA, 0, 0, 0, 0x31, 0xC0],       // mov edi, 202; xor eax, eax
            &[0xE8, 0, 0, 0, 0],                      // call
            &[0xBF, 0xCB, 0, 0, 0, 0xE8, 0, 0, 0, 0], // mov edi, 203; call
        ]
        .concat();
        let wanted = CodeCounts { instructions: 13, locked: 2, exchanges: 1, syscalls: 2, futexes: 2 };
        assert_eq!(count(&code, 0x1000, |_| true), wanted);
        assert_eq!(count(&code, 0x1000, |_| false).futexes, 1);
    }

    #[test]
    fn bytes_that_are_no_code_end() {
        assert_eq!(count(&[], 0, |_| true), CodeCounts::default());
        assert!(count(&[0xFF; 64], 0, |_| true).instructions <= 64);
    }
}
