//! What runs in the place of the instructions that a jump takes away.
//!
//! A jump has five bytes. The instructions there run elsewhere, with whatever they
//! address relative to their place set right. That is possible if nothing jumps to
//! the second of them or a later one, and no other thread is there; else only a
//! trap in the place of the first byte will do, which takes a hundred times as long.
//!
//! Whether anything does is asked in `entered`.

use super::entered::Known;
use super::memory::Memory;
use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, FlowControl, Instruction, InstructionBlock, Mnemonic, OpKind, Register,
};
use relive_trace::stand::{CODE_BYTES, COPIED_BYTES, LEAD_BYTES};

const JUMP_BYTES: usize = 5;
/// Instructions before the one that is looked at, at most.
const LEADING: usize = 4;

/// The replacement.
#[derive(Debug, Default)]
pub(super) struct Apart {
    /// Bytes of whole instructions that may be taken away; less than a jump if only a trap may stand there, 0 if not
    /// even that.
    pub(super) room: usize,
    /// What runs instead; it goes on behind them.
    pub(super) code: Vec<u8>,
    /// Bytes of them that stand before the instruction that is looked at.
    pub(super) lead: usize,
    /// What runs instead of those.
    pub(super) lead_code: Vec<u8>,
}

/// For the instruction at `place`. `at` says where the replacement will be, and where what runs before the comparison;
/// `known` what is around it. In a crowd other threads may be anywhere.
pub(super) fn find(memory: &Memory, place: u64, at: [u64; 2], known: &Known, crowded: bool) -> Apart {
    if crowded {
        return in_crowd(memory, place, known, at[0] != 0);
    }
    let alone = here(memory, place, at[0], known);
    if alone.room == 0 || alone.room >= JUMP_BYTES {
        return alone;
    }
    // The instructions before it, which nobody passes by on the way to it, may be long enough.
    let mut start = place;
    for _ in 0..LEADING {
        let Some(before) = known.before(memory, start) else { break };
        start = before;
        if let Some(found) = leading(memory, [start, place], at, known) {
            return found;
        }
    }
    alone
}

/// With the jump at `start`, before `place`.
fn leading(memory: &Memory, [start, place]: [u64; 2], at: [u64; 2], known: &Known) -> Option<Apart> {
    let mut taken = take(memory, start);
    while taken.last()?.next_ip() <= place {
        taken.push(memory.instruction(taken.last()?.next_ip()));
    }
    let first = taken.iter().position(|instruction| instruction.ip() == place)?;
    // A call comes back behind itself, where nothing may have been taken away.
    let before_last = &taken[..taken.len() - 1];
    let unfit = taken.iter().any(Instruction::is_invalid) || before_last.iter().any(calls);
    if length(&taken) < JUMP_BYTES || unfit || entered(memory, &taken, known) {
        return None;
    }
    let lead_code = moved(&taken[..first], at[1]).filter(|code| code.len() <= LEAD_BYTES)?;
    let code = moved(&taken[first..], at[0])?;
    Some(Apart { room: length(&taken), code, lead: (place - start) as usize, lead_code })
}

/// Whole instructions in the place of a jump; fewer bytes, if what follows is not theirs.
fn take(memory: &Memory, place: u64) -> Vec<Instruction> {
    let mut taken = vec![memory.instruction(place)];
    while length(&taken) < JUMP_BYTES {
        let last = taken[taken.len() - 1];
        let next = memory.instruction(last.next_ip());
        // Behind a jump only padding is nobody's.
        if last.is_invalid() || ends(&last) && !matches!(next.mnemonic(), Mnemonic::Nop | Mnemonic::Int3) {
            break;
        }
        taken.push(next);
    }
    taken
}

fn here(memory: &Memory, place: u64, at: u64, known: &Known) -> Apart {
    let taken = take(memory, place);
    let apart =
        |taken: &[Instruction]| moved(taken, at).map(|code| Apart { room: length(taken), code, ..Apart::default() });
    let Some(alone) = apart(&taken[..1]) else { return Apart::default() };
    let moves = taken.len() > 1 && taken.iter().all(|i| !i.is_invalid() && !calls(i)) && length(&taken) >= JUMP_BYTES;
    if !moves || entered(memory, &taken, known) { alone } else { apart(&taken).unwrap_or(alone) }
}

/// In a crowd: how far before `place` a jump may begin. Who jumps behind its first instruction finds a trap there, which
/// is right but slow. `fifth` says whether an instruction may begin at the jump's last byte.
fn in_crowd(memory: &Memory, place: u64, known: &Known, fifth: bool) -> Apart {
    let mut start = place;
    for _ in 0..=LEADING {
        let mut taken = take(memory, start);
        while taken.last().is_some_and(|last| last.next_ip() <= place) {
            taken.push(memory.instruction(taken[taken.len() - 1].next_ip()));
        }
        let last_byte = start + JUMP_BYTES as u64 - 1;
        let fits = length(&taken) >= JUMP_BYTES
            && taken.iter().all(copies)
            && (fifth || taken.iter().all(|instruction| instruction.ip() != last_byte));
        if fits && (taken[0].len() >= JUMP_BYTES || !entered(memory, &taken, known)) {
            return Apart { room: JUMP_BYTES, lead: (place - start) as usize, ..Apart::default() };
        }
        let Some(before) = known.before(memory, start) else { break };
        start = before;
    }
    Apart { room: 1, ..Apart::default() }
}

/// Whether a copy of it does the same.
fn copies(instruction: &Instruction) -> bool {
    // What traps is told by its place.
    !instruction.is_invalid()
        && !matches!(instruction.flow_control(), FlowControl::Exception | FlowControl::Interrupt)
        && !matches!(instruction.mnemonic(), Mnemonic::Syscall | Mnemonic::Sysenter)
}

/// The instruction at `place` for another address.
pub(super) fn copy(memory: &Memory, place: u64, at: u64) -> Option<Vec<u8>> {
    let instruction = memory.instruction(place);
    let fits = |code: &Vec<u8>| code.len() + JUMP_BYTES <= COPIED_BYTES;
    if copies(&instruction) { moved(&[instruction], at).filter(fits) } else { None }
}

/// Whether anything near may jump behind the first of these instructions.
fn entered(memory: &Memory, taken: &[Instruction], known: &Known) -> bool {
    let inside = taken[1].ip()..(taken[0].ip() + JUMP_BYTES as u64).max(taken[taken.len() - 1].ip() + 1);
    known.is_entered(memory, taken[0].ip(), &inside)
}

fn length(taken: &[Instruction]) -> usize {
    taken.iter().map(Instruction::len).sum()
}

/// Whether what stands behind an instruction may be anything.
fn ends(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return | FlowControl::Exception
    )
}

fn calls(instruction: &Instruction) -> bool {
    matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall | FlowControl::Interrupt)
}

/// The instructions for another address. `None` if that is too far away.
fn moved(taken: &[Instruction], at: u64) -> Option<Vec<u8>> {
    if at == 0 || taken.iter().any(Instruction::is_invalid) {
        return None;
    }
    let mut code = Vec::new();
    for instruction in taken {
        // One by one: a jump to the first of them must find the place that is watched.
        let at = at + code.len() as u64;
        let target = instruction.near_branch_target();
        if calls(instruction) {
            code.extend_from_slice(&called(instruction, at)?);
        } else if target != 0 && target == instruction.ip() {
            return None;
        } else {
            code.extend_from_slice(&encoded(instruction, at)?);
        }
    }
    (code.len() <= CODE_BYTES).then_some(code)
}

fn encoded(instruction: &Instruction, at: u64) -> Option<Vec<u8>> {
    let one = std::slice::from_ref(instruction);
    let encoded = BlockEncoder::encode(64, InstructionBlock::new(one, at), BlockEncoderOptions::NONE).ok()?;
    Some(encoded.code_buffer)
}

/// A call must leave its own place's address behind: what it would push is written instead.
fn called(call: &Instruction, at: u64) -> Option<Vec<u8>> {
    let near = matches!(call.op0_kind(), OpKind::NearBranch64);
    if !near && call.code() != Code::Call_rm64 {
        return None;
    }
    let back = call.next_ip();
    // lea rsp, [rsp - 8]; mov dword [rsp], …; mov dword [rsp + 4], …; jmp …
    let mut code = vec![0x48, 0x8D, 0x64, 0x24, 0xF8, 0xC7, 0x04, 0x24];
    code.extend_from_slice(&(back as u32).to_le_bytes());
    code.extend_from_slice(&[0xC7, 0x44, 0x24, 0x04]);
    code.extend_from_slice(&((back >> 32) as u32).to_le_bytes());
    if !near {
        code.extend_from_slice(&encoded(&jump_of(call)?, at + code.len() as u64)?);
        return Some(code);
    }
    let behind = at + code.len() as u64 + JUMP_BYTES as u64;
    let distance = i32::try_from(call.near_branch64().wrapping_sub(behind) as i64).ok()?;
    code.push(0xE9);
    code.extend_from_slice(&distance.to_le_bytes());
    Some(code)
}

/// The jump to where an indirect call leads, once its return address has been pushed.
fn jump_of(call: &Instruction) -> Option<Instruction> {
    const WORD: u64 = 8;
    let mut jump = *call;
    jump.set_code(Code::Jmp_rm64);
    if call.op0_kind() == OpKind::Register && call.op0_register() == Register::RSP {
        return None;
    }
    if call.op0_kind() == OpKind::Memory && call.memory_base() == Register::RSP {
        jump.set_memory_displacement64(call.memory_displacement64().wrapping_add(WORD));
        jump.set_memory_displ_size(8);
    }
    Some(jump)
}

#[cfg(test)]
mod tests {
    use super::super::memory::Memory;
    use super::called;

    /// What runs instead of a call at 0x1000, from 0x5000 on: its instructions.
    fn instead(call: &[u8]) -> Option<Vec<String>> {
        let call = Memory::of(0x1000, call).instruction(0x1000);
        let (code, mut at, mut seen) = (called(&call, 0x5000)?, 0, Vec::new());
        let memory = Memory::of(0x5000, &code);
        while at < code.len() {
            let instruction = memory.instruction(0x5000 + at as u64);
            at += instruction.len();
            seen.push(match instruction.near_branch_target() {
                0 => format!("{:?} {:x}", instruction.memory_base(), instruction.memory_displacement64()),
                target => format!("{target:x}"),
            });
        }
        Some(seen.split_off(3))
    }

    #[test]
    fn a_call_leaves_its_own_return_address_and_goes_where_it_would() {
        assert_eq!(instead(&[0xE8, 0, 1, 0, 0]).unwrap(), ["1105"], "call 1105");
        assert_eq!(instead(&[0x41, 0xFF, 0xD5]).unwrap(), ["None 0"], "call r13");
        assert_eq!(instead(&[0xFF, 0x50, 0x10]).unwrap(), ["RAX 10"], "call [rax + 16]");
        assert_eq!(instead(&[0xFF, 0x54, 0x24, 0x78]).unwrap(), ["RSP 80"], "call [rsp + 120]");
        assert_eq!(instead(&[0xFF, 0x15, 0x10, 0, 0, 0]).unwrap(), ["RIP 1016"], "call [rip + 16]");
        assert_eq!(instead(&[0x0F, 0x05]), None, "syscall");
        assert_eq!(instead(&[0xFF, 0xD4]), None, "call rsp");
    }
}
