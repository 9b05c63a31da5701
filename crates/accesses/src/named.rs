//! How an instruction accesses the operand in memory that it names.
//!
//! Apart from what is emitted for accesses: here an instruction is asked about that runs
//! by itself, and whose address is known.

use crate::what::Kind;
use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory, Mnemonic, OpAccess, OpKind};

/// What the instruction at the start of `code` does to the memory that it names, and to how many bytes. `None` if it names none,
/// or the number of bytes hangs on its other operands.
pub fn named(code: &[u8]) -> Option<(Kind, u64)> {
    let instruction = Decoder::new(64, code, DecoderOptions::NONE).decode();
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(&instruction);
    let operand = (0..instruction.op_count()).find(|&number| instruction.op_kind(number) == OpKind::Memory)?;
    let locked = instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Xchg;
    let kind = match info.op_access(operand) {
        OpAccess::None | OpAccess::NoMemAccess => return None,
        _ if locked => Kind::Locked,
        OpAccess::Read | OpAccess::CondRead => Kind::Read,
        _ => Kind::Write,
    };
    let bytes = instruction.memory_size().size() as u64;
    (bytes > 0).then_some((kind, bytes))
}

#[cfg(test)]
mod tests {
    use super::{Kind, named};

    #[test]
    fn instructions_name_what_they_access() {
        assert_eq!(named(&[0x8B, 0x0F]), Some((Kind::Read, 4)), "mov ecx, [rdi]");
        assert_eq!(named(&[0x48, 0x89, 0x50, 0x04]), Some((Kind::Write, 8)), "mov [rax + 4], rdx");
        assert_eq!(named(&[0x66, 0x83, 0x38, 0x01]), Some((Kind::Read, 2)), "cmp word ptr [rax], 1");
        assert_eq!(named(&[0xF0, 0x0F, 0xC1, 0x07]), Some((Kind::Locked, 4)), "lock xadd [rdi], eax");
        assert_eq!(named(&[0x86, 0x06]), Some((Kind::Locked, 1)), "xchg [rsi], al");
        assert_eq!(named(&[0xFF, 0x37]), Some((Kind::Read, 8)), "push [rdi]");
        assert_eq!(named(&[0x01, 0x07]), Some((Kind::Write, 4)), "add [rdi], eax");
        assert_eq!(named(&[0x01, 0xC7]), None, "add edi, eax");
        assert_eq!(named(&[0x48, 0x8D, 0x07]), None, "lea rax, [rdi]");
        assert_eq!(named(&[0x06]), None, "no instruction");
    }
}
