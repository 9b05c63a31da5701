//! What runs in the place of the instructions that a jump takes away.
//!
//! A jump has five bytes. The instructions there run elsewhere, with whatever they
//! address relative to their place set right. That is possible if nothing jumps to
//! the second of them or a later one, and no other thread is there; else only a
//! trap in the place of the first byte will do, which takes a hundred times as long.
//!
//! Where instructions begin the walk tells, and the functions that call frame
//! information names, read from their beginnings. Whatever else looks like a jump to
//! the place counts as one. So does a table with a distance that may lead there, if
//! some code names its beginning, all that stands before in it leads to code, and the
//! first of that not to another function.

use super::memory::Memory;
use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionBlock,
    Mnemonic, OpKind, Register,
};
use relive_trace::stand::{CODE_BYTES, COPIED_BYTES, LEAD_BYTES};
use std::collections::BTreeSet;
use std::ops::Range;

const JUMP_BYTES: usize = 5;
const LONGEST: usize = 15;
/// Instructions before the one that is looked at, at most.
const LEADING: usize = 4;
/// Jumps from further away into the bytes are not looked for.
const AROUND: u64 = 2048;

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
/// `known` where instructions begin. In a crowd other threads may be anywhere.
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
        let decode = |&&ip: &&u64| ip + decode(memory, ip).len() as u64 == start;
        let Some(&before) = known.starts.range(start.saturating_sub(LONGEST as u64)..start).find(decode) else { break };
        start = before;
        if let Some(found) = leading(memory, [start, place], at, known) {
            return found;
        }
    }
    alone
}

/// What is known of a file's code.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Where instructions begin, near the one that is looked at.
    starts: BTreeSet<u64>,
    /// Functions and parts of functions, by their addresses.
    functions: Vec<Range<u64>>,
}

impl Known {
    /// `seen` are starts; the functions around `place` are read from their beginnings.
    pub(super) fn new(memory: &Memory, seen: BTreeSet<u64>, functions: Vec<Range<u64>>, place: u64) -> Self {
        let around = place.saturating_sub(2 * AROUND)..place + 2 * AROUND;
        let mut starts = seen;
        for function in functions.iter().filter(|it| it.start < around.end && around.start < it.end) {
            let read: BTreeSet<u64> = instructions(memory, function).iter().map(Instruction::ip).collect();
            if !function.contains(&place) || read.contains(&place) {
                starts.extend(read);
            }
        }
        Self { starts, functions }
    }

    fn function_of(&self, place: u64) -> Option<&Range<u64>> {
        let after = self.functions.partition_point(|function| function.start <= place);
        self.functions[..after].last().filter(|function| function.contains(&place))
    }

    /// Whether a table that leads to `first` is one of another function than that of `place`.
    fn is_of_another(&self, first: u64, place: u64) -> bool {
        /// Compilers align functions so. A part of one that they put elsewhere is not aligned, and its tables are those
        /// of the other parts.
        const ALIGNED: u64 = 16;
        let whole = |place| self.function_of(place).filter(|function| function.start.is_multiple_of(ALIGNED));
        whole(place).is_some_and(|own| whole(first).is_some_and(|other| other != own))
    }
}

/// A function's instructions, read one behind the other; none, if these don't end where it does: then there is something
/// else between.
fn instructions(memory: &Memory, function: &Range<u64>) -> Vec<Instruction> {
    const LARGEST: u64 = 1 << 16;
    if function.end - function.start > LARGEST {
        return Vec::new();
    }
    let code = memory.read(function.start, (function.end - function.start) as usize);
    let decoder = Decoder::with_ip(64, &code, function.start, DecoderOptions::NONE);
    let read: Vec<_> = decoder.into_iter().take_while(|instruction| !instruction.is_invalid()).collect();
    if read.last().is_some_and(|last| last.next_ip() == function.end) { read } else { Vec::new() }
}

fn decode(memory: &Memory, place: u64) -> Instruction {
    decode_at(&memory.read(place, LONGEST), place)
}

fn decode_at(code: &[u8], place: u64) -> Instruction {
    Decoder::with_ip(64, code, place, DecoderOptions::NONE).decode()
}

/// With the jump at `start`, before `place`.
fn leading(memory: &Memory, [start, place]: [u64; 2], at: [u64; 2], known: &Known) -> Option<Apart> {
    let mut taken = take(memory, start);
    while taken.last()?.next_ip() <= place {
        taken.push(decode(memory, taken.last()?.next_ip()));
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
    let mut taken = vec![decode(memory, place)];
    while length(&taken) < JUMP_BYTES {
        let last = taken[taken.len() - 1];
        let next = decode(memory, last.next_ip());
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
            taken.push(decode(memory, taken[taken.len() - 1].next_ip()));
        }
        let last_byte = start + JUMP_BYTES as u64 - 1;
        let fits = length(&taken) >= JUMP_BYTES
            && taken.iter().all(copies)
            && (fifth || taken.iter().all(|instruction| instruction.ip() != last_byte));
        if fits && (taken[0].len() >= JUMP_BYTES || !entered(memory, &taken, known)) {
            return Apart { room: JUMP_BYTES, lead: (place - start) as usize, ..Apart::default() };
        }
        let behind = |&&ip: &&u64| ip + decode(memory, ip).len() as u64 == start;
        let Some(&before) = known.starts.range(start.saturating_sub(LONGEST as u64)..start).find(behind) else { break };
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
    let instruction = decode(memory, place);
    let fits = |code: &Vec<u8>| code.len() + JUMP_BYTES <= COPIED_BYTES;
    if copies(&instruction) { moved(&[instruction], at).filter(fits) } else { None }
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

/// Whether something near may jump behind the first of these instructions. Where instructions begin is
/// not known everywhere: whatever looks like a jump, and is not within one that is known, counts as one.
fn entered(memory: &Memory, taken: &[Instruction], known: &Known) -> bool {
    let inside = taken[1].ip()..(taken[0].ip() + JUMP_BYTES as u64).max(taken[taken.len() - 1].ip() + 1);
    // Code may begin anywhere before the place.
    let mut start = taken[0].ip().saturating_sub(AROUND);
    while start < taken[0].ip() && memory.read(start, 1).is_empty() {
        start += 1;
    }
    let code = memory.read(start, 2 * AROUND as usize);
    let within = |ip: u64| {
        let before = known.starts.range(ip.saturating_sub(LONGEST as u64)..ip).next_back();
        before.is_some_and(|&before| before + decode(memory, before).len() as u64 > ip)
    };
    (0..code.len().saturating_sub(1)).any(|at| {
        let next = code[at + 1];
        let near = |length: usize| {
            let bytes = code.get(at + length - 4..at + length)?.first_chunk()?;
            Some((at + length, i64::from(i32::from_le_bytes(*bytes))))
        };
        let target = match code[at] {
            0x70..=0x7F | 0xE0..=0xE3 | 0xEB => Some((at + 2, i64::from(next as i8))),
            0xE8 | 0xE9 => near(5),
            0x0F if next & 0xF0 == 0x80 => near(6),
            _ => None,
        };
        let enters = |(behind, by)| inside.contains(&(start + behind as u64).wrapping_add_signed(by));
        target.is_some_and(enters) && !within(start + at as u64)
    }) || tables_lead_into(memory, &inside, known)
}

/// Whether a table may hold one of these places for a jump.
fn tables_lead_into(memory: &Memory, inside: &Range<u64>, known: &Known) -> bool {
    let Some(module) = memory.module(inside.start) else { return false };
    let mut tables = Vec::new();
    for (at, data) in &module.tables {
        let Some(found) = tables_with(*at, data, inside) else { return true };
        // From its beginning to there, a table leads to code.
        let targets = |table: u64, to: u64| {
            let entries = data[(table - at) as usize..=(to - at) as usize + 3].as_chunks::<4>().0.iter();
            entries.map(move |entry| table.wrapping_add_signed(i64::from(i32::from_le_bytes(*entry))))
        };
        let of_ours = |&(table, to): &(u64, u64)| {
            targets(table, to).all(|target| module.code.contains(&target))
                && !targets(table, to).next().is_some_and(|first| known.is_of_another(first, inside.start))
        };
        tables.extend(found.into_iter().filter(of_ours).map(|(table, _)| table));
    }
    tables.sort_unstable();
    !tables.is_empty() && names_any(module.code.start, &memory.read_all(&module.code), &tables)
}

/// Where tables might begin that hold one of these places for a jump, as its distance from their beginning, and where that
/// stands. `None` if there is its address.
fn tables_with(at: u64, data: &[u8], places: &Range<u64>) -> Option<Vec<(u64, u64)>> {
    const TABLE_BYTES: u64 = 8192;
    let (words, halves) = (data.as_chunks::<8>().0, data.as_chunks::<4>().0);
    if words.iter().any(|word| places.contains(&u64::from_le_bytes(*word))) {
        return None;
    }
    let with = |(here, half): (u64, &[u8; 4])| {
        let distance = i64::from(i32::from_le_bytes(*half));
        let tables = places.clone().map(move |place| place.wrapping_add_signed(-distance));
        let fits =
            move |table: &u64| table.is_multiple_of(4) && (at..=here).contains(table) && here - table < TABLE_BYTES;
        tables.filter(fits).map(move |table| (table, here))
    };
    Some((at..).step_by(4).zip(halves).flat_map(with).collect())
}

/// Whether code from `start` on may name one of these addresses, which are sorted, by its distance from itself: so a table
/// is found by who jumps with it. What only looks like a table nobody names.
fn names_any(start: u64, code: &[u8], addresses: &[u64]) -> bool {
    let (Some(&lowest), Some(&highest)) = (addresses.first(), addresses.last()) else { return false };
    (start + 4..).zip(code.windows(4)).any(|(behind, bytes)| {
        let distance = bytes.first_chunk().map_or(0, |bytes| i64::from(i32::from_le_bytes(*bytes)));
        let address = behind.wrapping_add_signed(distance);
        (lowest..=highest).contains(&address) && addresses.binary_search(&address).is_ok()
    })
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
    use super::{Known, called, decode_at, names_any, tables_with};
    use std::collections::BTreeSet;

    /// What runs instead of a call at 0x1000, from 0x5000 on: its instructions.
    fn instead(call: &[u8]) -> Option<Vec<String>> {
        let call = decode_at(call, 0x1000);
        let (code, mut at, mut seen) = (called(&call, 0x5000)?, 0, Vec::new());
        while at < code.len() {
            let instruction = decode_at(&code[at..], 0x5000 + at as u64);
            at += instruction.len();
            seen.push(match instruction.near_branch_target() {
                0 => format!("{:?} {:x}", instruction.memory_base(), instruction.memory_displacement64()),
                target => format!("{target:x}"),
            });
        }
        Some(seen.split_off(3))
    }

    #[test]
    fn a_function_is_read_from_its_beginning_to_its_end() {
        // mov rax, [rip + 2]; add rax, 1; ret; a byte of something else
        let code = [0x48, 0x8B, 0x05, 2, 0, 0, 0, 0x48, 0x83, 0xC0, 1, 0xC3, 0x06];
        let memory = Memory::of(0x1000, &code);
        let starts = |function, place| {
            Known::new(&memory, BTreeSet::new(), vec![function], place).starts.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(starts(0x1000..0x100C, 0x100B), [0x1000, 0x1007, 0x100B]);
        assert_eq!(starts(0x1000..0x100C, 0x1020), [0x1000, 0x1007, 0x100B], "another one");
        assert_eq!(starts(0x1000..0x100C, 0x4020), [] as [u64; 0], "far away");
        assert_eq!(starts(0x1000..0x100C, 0x1008), [] as [u64; 0], "within one");
        assert_eq!(starts(0x1000..0x100D, 0x1007), [] as [u64; 0], "it ends in what is none");
        assert_eq!(starts(0x1000..0x1009, 0x1007), [] as [u64; 0], "it ends within one");
    }

    #[test]
    fn a_table_is_of_the_function_that_it_first_leads_to_or_of_one_of_several_parts() {
        let known = Known { starts: BTreeSet::new(), functions: vec![0x1000..0x1100, 0x1107..0x1180, 0x1200..0x1300] };
        assert!(known.is_of_another(0x1200, 0x1010));
        assert!(!known.is_of_another(0x1010, 0x1020), "its own");
        assert!(!known.is_of_another(0x1110, 0x1010), "it may be a part of the same");
        assert!(!known.is_of_another(0x1010, 0x1110), "of one of which it may be a part");
        assert!(!known.is_of_another(0x1190, 0x1010), "of none");
        assert!(!known.is_of_another(0x1200, 0x1190), "nobody knows of what it is");
    }

    #[test]
    fn a_table_holds_distances_from_its_beginning_and_is_named_by_code() {
        const AT: u64 = 0x9000;
        let data: Vec<u8> =
            [0x1234, 0x1300].iter().flat_map(|to: &u64| (to.wrapping_sub(AT) as u32).to_le_bytes()).collect();
        let with = |place: u64| tables_with(AT, &data, &(place..place + 1));
        assert_eq!(with(0x1234), Some(vec![(AT, AT)]));
        assert_eq!(with(0x1300), Some(vec![(AT, AT + 4)]));
        assert_eq!(with(0x1304), Some(vec![(AT + 4, AT + 4)]), "of another table, which begins there, if any");
        assert_eq!(with(0x1306), Some(vec![]), "tables begin at whole words");
        assert_eq!(tables_with(AT, &0x1234u64.to_le_bytes(), &(0x1230..0x1238)), None, "an address");
        // lea rdx, [rip + 0x7FF9], which ends at 0x1007
        let code = [0x48, 0x8D, 0x15, 0xF9, 0x7F, 0, 0, 0x90];
        assert!(names_any(0x1000, &code, &[0x8FFC, AT]));
        assert!(!names_any(0x1000, &code, &[0x8FFC, AT + 4]));
        assert!(!names_any(0x1001, &code, &[AT]));
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
