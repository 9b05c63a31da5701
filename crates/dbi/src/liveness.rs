//! Which registers and flags inserted code may overwrite without saving them.
//!
//! Before an instruction a register is dead if the block certainly writes all of it
//! before it reads any of it. One walk from the end to the beginning: everything is
//! live where the block is left, at each side exit too; an instruction that writes a
//! register makes it dead before itself, one that reads it makes it live. A write
//! that may not happen (a conditional move, a shift by zero, a repeat of zero times)
//! makes nothing dead, nor does a write of a register's lower half or byte.
//!
//! A branch back into the block itself, as loops have, leads to what is live there:
//! the walk is repeated until nothing becomes live any more. What lies outside the
//! block is not looked at, because a change of it would not be noticed here.
//!
//! What is dead may hold garbage for a while, which a signal handler could see; the
//! program itself can't. rbp is never dead: code without optimisation finds its frame
//! by it until the very instruction that pops it, and so does who looks at the stack.

use crate::decode::{Block, Flow, INSTRUCTIONS, flow};
use crate::register::{FLAGS, Gpr, GprSet};
use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, RflagsBits};

/// What is live at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Live {
    pub(crate) registers: GprSet,
    pub(crate) flags: u32,
}

const ALL: Live = Live { registers: GprSet::ALL, flags: FLAGS };

const NOTHING: Live = Live { registers: GprSet::NONE, flags: 0 };

impl Live {
    fn or(self, other: Self) -> Self {
        Self { registers: self.registers.union(other.registers), flags: self.flags | other.flags }
    }
}

/// What one instruction does to what is live.
#[derive(Clone, Copy)]
pub(crate) struct Effect {
    read: Live,
    /// All of it, and whatever happens.
    written: Live,
    /// The registers that it uses in any way.
    pub(crate) used: GprSet,
    /// It reads or changes arithmetic flags.
    pub(crate) flags: bool,
}

/// How the block goes on behind an instruction.
#[derive(Clone, Copy)]
enum Way {
    Next,
    /// To this instruction of the block.
    Within(usize),
    Either(usize),
    Outside,
}

/// What is live before each instruction, and behind the last one.
pub(crate) struct Liveness {
    live: [Live; INSTRUCTIONS + 1],
    effects: [Effect; INSTRUCTIONS],
    count: usize,
}

impl Liveness {
    pub(crate) fn of(block: &Block, factory: &mut InstructionInfoFactory) -> Self {
        let nothing = Effect { read: NOTHING, written: NOTHING, used: GprSet::NONE, flags: false };
        let count = block.instructions().len();
        let mut all = Self { live: [NOTHING; INSTRUCTIONS + 1], effects: [nothing; INSTRUCTIONS], count };
        let mut ways = [Way::Next; INSTRUCTIONS];
        for (index, instruction) in block.instructions().iter().enumerate() {
            all.effects[index] = effect(instruction, factory);
            ways[index] = way(block, instruction);
        }
        all.live[count] = ALL;
        while all.walk(&ways[..count]) {}
        all
    }

    /// One walk to the beginning. Whether anything changed.
    fn walk(&mut self, ways: &[Way]) -> bool {
        let mut changed = false;
        for (index, way) in ways.iter().enumerate().rev() {
            let next = self.live[index + 1];
            let behind = match *way {
                Way::Next => Some(next),
                Way::Within(to) => Some(self.live[to]),
                Way::Either(to) => Some(self.live[to].or(next)),
                // Whoever takes the program over at such an instruction may look at all of it.
                Way::Outside => None,
            };
            let Effect { read, written, .. } = self.effects[index];
            let found = behind.map_or(ALL, |behind| Live {
                registers: behind.registers.minus(written.registers).union(read.registers).with(Gpr::RBP),
                flags: behind.flags & !written.flags | read.flags,
            });
            changed |= found != self.live[index];
            self.live[index] = found;
        }
        changed
    }

    pub(crate) fn before(&self, index: usize) -> Live {
        self.live[index]
    }

    pub(crate) fn effect(&self, index: usize) -> &Effect {
        &self.effects[index]
    }

    /// Of `registers` the one that the block, from the instruction `index` on, leaves alone for longest.
    pub(crate) fn idle_longest(&self, index: usize, registers: impl Iterator<Item = Gpr>) -> Option<Gpr> {
        let idle = |register: &Gpr| {
            self.effects[index..self.count].iter().take_while(|effect| !effect.used.contains(*register)).count()
        };
        registers.max_by_key(idle)
    }
}

/// How the block goes on behind the instruction.
fn way(block: &Block, instruction: &Instruction) -> Way {
    let within = |target| block.instructions().iter().position(|i| i.ip() == target);
    match flow(instruction) {
        Ok(Flow::Next) => Way::Next,
        Ok(Flow::Conditional(target)) => within(target).map_or(Way::Outside, Way::Either),
        Ok(Flow::Jump(target)) => within(target).map_or(Way::Outside, Way::Within),
        _ => Way::Outside,
    }
}

/// What the instruction reads and writes.
fn effect(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> Effect {
    let (mut read, mut written, mut all) = (GprSet::NONE, GprSet::NONE, GprSet::NONE);
    for used in factory.info(instruction).used_registers() {
        let register = used.register();
        let Some(whole) = Gpr::containing(register) else { continue };
        all = all.with(whole);
        match used.access() {
            OpAccess::None | OpAccess::NoMemAccess => {}
            // A 32-bit result clears the upper half.
            OpAccess::Write if register.is_gpr64() || register.is_gpr32() => written = written.with(whole),
            _ => read = read.with(whole),
        }
    }
    // `xor r, r` depends on nothing, and iced says so; but where the count is zero nothing is written at all.
    if is_repeated(instruction) {
        written = GprSet::NONE;
    }
    let flags = if writes_flags_always(instruction) { flags_set_by(instruction) & FLAGS } else { 0 };
    Effect {
        read: Live { registers: read, flags: instruction.rflags_read() & FLAGS },
        written: Live { registers: written, flags },
        used: all,
        flags: (instruction.rflags_read() | instruction.rflags_modified()) & FLAGS != 0,
    }
}

fn is_repeated(instruction: &Instruction) -> bool {
    instruction.is_string_instruction() && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
}

/// Flags that get a value that does not depend on what they were.
fn flags_set_by(instruction: &Instruction) -> u32 {
    let defined = instruction.rflags_written() | instruction.rflags_cleared() | instruction.rflags_set();
    // The manuals leave AF open here; every processor gives it one value, or nothing could be dead behind a `test`.
    let logical = matches!(instruction.mnemonic(), Mnemonic::And | Mnemonic::Or | Mnemonic::Xor | Mnemonic::Test);
    if logical { defined | RflagsBits::AF } else { defined }
}

/// Shifts by a count of zero leave the flags alone, and so does a repeat of zero times.
fn writes_flags_always(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    let shift = matches!(
        instruction.mnemonic(),
        M::Shl | M::Sal | M::Shr | M::Sar | M::Rol | M::Ror | M::Rcl | M::Rcr | M::Shld | M::Shrd
    );
    if is_repeated(instruction) {
        return false;
    }
    if !shift {
        return true;
    }
    let last = instruction.op_count() - 1;
    let wide = instruction.op0_register().is_gpr64() || instruction.memory_size().size() == 8;
    let mask = if wide { 63 } else { 31 };
    match instruction.op_kind(last) {
        OpKind::Register => instruction.op_register(last) != Register::CL,
        _ => instruction.immediate(last) & mask != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::{ALL, Live, Liveness};
    use crate::decode::Block;
    use crate::host::Host;
    use crate::register::{FLAGS, Gpr, GprSet};
    use iced_x86::InstructionInfoFactory;
    use iced_x86::code_asm::{CodeAssembler, al, byte_ptr, cl, eax, ecx, rax, rbp, rbx, rcx, rdi, rdx, rsi};

    struct Code(Vec<u8>);

    impl Host for Code {
        fn read(&self, _address: u64, into: &mut [u8]) -> usize {
            into[..self.0.len()].copy_from_slice(&self.0);
            self.0.len()
        }

        fn is_outside(&self, _address: u64) -> bool {
            false
        }
    }

    /// What is live before the first instruction.
    fn live(write: impl FnOnce(&mut CodeAssembler)) -> Live {
        let mut assembler = CodeAssembler::new(64).unwrap();
        write(&mut assembler);
        assembler.ret().unwrap();
        let block = Block::read(&Code(assembler.assemble(0x1000).unwrap()), 0x1000).unwrap();
        Liveness::of(&block, &mut InstructionInfoFactory::new()).before(0)
    }

    #[test]
    fn a_register_that_is_written_first_is_dead() {
        let found = live(|a| a.mov(eax, ecx).unwrap());
        assert!(!found.registers.contains(Gpr::RAX) && found.registers.contains(Gpr::RCX));
        assert_eq!(found.flags, FLAGS);
        assert!(!live(|a| a.xor(eax, eax).unwrap()).registers.contains(Gpr::RAX));
    }

    #[test]
    fn the_frame_is_there_until_it_is_popped() {
        assert!(live(|a| a.pop(rbp).unwrap()).registers.contains(Gpr::RBP));
        assert!(!live(|a| a.pop(rbx).unwrap()).registers.contains(Gpr::RBX));
    }

    #[test]
    fn writes_of_a_part_or_perhaps_keep_it_live() {
        assert!(live(|a| a.mov(al, byte_ptr(rdi)).unwrap()).registers.contains(Gpr::RAX));
        assert!(live(|a| a.cmove(rax, rbx).unwrap()).registers.contains(Gpr::RAX));
        assert!(live(|a| a.rep().stosb().unwrap()).registers.contains(Gpr::RDI));
        assert!(live(|a| a.rep().movsb().unwrap()).registers.contains(Gpr::RCX));
    }

    #[test]
    fn flags_are_dead_before_what_sets_them_all() {
        assert_eq!(live(|a| a.cmp(rax, rbx).unwrap()).flags, 0);
        assert_eq!(live(|a| a.test(rax, rax).unwrap()).flags, 0);
        assert_eq!(live(|a| a.adc(rax, rbx).unwrap()).flags, iced_x86::RflagsBits::CF);
        assert_eq!(live(|a| a.inc(rax).unwrap()).flags, iced_x86::RflagsBits::CF);
        assert_eq!(live(|a| a.mov(rax, rbx).unwrap()).flags, FLAGS);
    }

    #[test]
    fn a_count_of_zero_sets_no_flags() {
        assert_eq!(live(|a| a.shl(rax, cl).unwrap()).flags, FLAGS);
        assert_eq!(live(|a| a.shl(rax, 64).unwrap()).flags, FLAGS);
        assert_eq!(live(|a| a.shl(eax, 32).unwrap()).flags, FLAGS);
        assert_eq!(live(|a| a.shld(rax, rdx, cl).unwrap()).flags, FLAGS);
        assert_ne!(live(|a| a.shl(rax, 32).unwrap()).flags, FLAGS);
        assert_eq!(live(|a| a.repe().cmpsb().unwrap()).flags, FLAGS);
        assert_ne!(live(|a| a.cmpsb().unwrap()).flags, FLAGS);
    }

    #[test]
    fn a_loop_within_the_block_keeps_dead_what_it_writes_first() {
        let found = live(|a| {
            let mut top = a.create_label();
            a.set_label(&mut top).unwrap();
            a.mov(rax, rbx).unwrap();
            a.add(rcx, rax).unwrap();
            a.jmp(top).unwrap();
        });
        assert_eq!(found.registers, GprSet::NONE.with(Gpr::RBX).with(Gpr::RCX).with(Gpr::RBP));
        assert_eq!(found.flags, 0);
        let found = live(|a| {
            let mut top = a.create_label();
            a.set_label(&mut top).unwrap();
            a.mov(rax, rbx).unwrap();
            a.dec(rcx).unwrap();
            a.jne(top).unwrap();
        });
        assert!(!found.registers.contains(Gpr::RAX) && found.registers.contains(Gpr::RDX));
    }

    #[test]
    fn everything_is_live_at_a_side_exit() {
        let found = live(|a| {
            let mut out = a.create_label();
            a.jrcxz(out).unwrap();
            a.mov(rsi, rcx).unwrap();
            a.set_label(&mut out).unwrap();
            a.nop().unwrap();
        });
        assert_eq!(found, ALL);
    }
}
