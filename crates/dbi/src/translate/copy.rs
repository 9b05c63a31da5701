//! What becomes of each kind of instruction.
//!
//! Apart from the block around it: here is the one place that says how a branch of
//! the program becomes a branch of the cache.

use super::{Reference, Translation, Way};
use crate::assembler::Operand;
use crate::decode::Flow;
use crate::host::Host;
use crate::register::{Gpr, GprSet};
use crate::relocate::{copy, legacy_prefixes, operation};
use crate::stubs;
use crate::tool::{Site, Tool, Treatment};
use iced_x86::{Code, Instruction, OpKind};

impl<H: Host, T: Tool> Translation<'_, '_, H, T> {
    /// Writes what does the same as the instruction. `used` are its registers, `dead` those that hold nothing before it.
    pub(super) fn instruction(&mut self, site: &Site<'_>, treatment: Treatment, used: GprSet, dead: GprSet) {
        let instruction = site.instruction;
        let (ip, next) = (instruction.ip(), instruction.next_ip());
        if treatment == Treatment::Event {
            self.hand_over(Way::Event, ip, next);
        }
        if self.around.whole && site.is_system_call() {
            self.hand_over(Way::SystemCall, ip, next);
        }
        match site.flow {
            Flow::Next => copy(&mut self.w, self.block, instruction, used, dead),
            Flow::Trap => {
                copy(&mut self.w, self.block, instruction, used, dead);
                if instruction.code() == Code::Syscall {
                    // The processor leaves the address of the next instruction there.
                    self.w.at_instruction((next - self.block.start) as u16);
                    self.w.code.constant(Gpr::RCX, next);
                }
            }
            Flow::Conditional(target) => {
                let bytes = self.block.bytes_of(instruction);
                let at = operation(bytes);
                let condition = bytes[at + usize::from(bytes[at] == 0x0F)] & 0xF;
                self.branch_out(&[0x0F, 0x80 | condition], ip, target);
            }
            Flow::Counted(target) => self.counted(instruction, target),
            Flow::Jump(target) => self.branch_out(&[0xE9], ip, target),
            Flow::Call(target) => {
                self.push(next);
                self.jump_out(ip, target);
            }
            Flow::IndirectJump => {
                self.load_target(instruction);
                self.look_up();
            }
            Flow::IndirectCall => {
                self.load_target(instruction);
                self.push(next);
                self.look_up();
            }
            Flow::Return(drop) => {
                stubs::take_return(&mut self.w, drop);
                self.look_up();
            }
        }
    }

    /// Leaves to the host or the tool, which may come back to what is written next.
    pub(super) fn hand_over(&mut self, way: fn(u32) -> Way, ip: u64, next: u64) {
        // Not patched while it runs: it need not be aligned.
        self.w.code.bytes(&[0xE9, 0, 0, 0, 0]);
        let back = self.w.code.offset() as u32;
        self.way_out(way(back), ip, next);
    }

    /// `jrcxz` and `loop` reach 127 bytes only: theirs is a jump over a jump.
    fn counted(&mut self, instruction: &Instruction, target: u64) {
        let bytes = self.block.bytes_of(instruction);
        self.w.code.bytes(&bytes[..bytes.len() - 1]);
        self.w.code.bytes(&[2]);
        // rcx may have been counted down: the instruction is done.
        self.w.at_instruction((instruction.next_ip() - self.block.start) as u16);
        let over = self.w.code.jump_short();
        self.w.mark_exit(self.count as u16);
        self.jump_out(instruction.ip(), target);
        self.w.code.bind(over);
        self.w.at_instruction((instruction.next_ip() - self.block.start) as u16);
    }

    /// Pushes the program's return address.
    fn push(&mut self, address: u64) {
        // push [rip + word]
        self.w.code.bytes(&[0xFF, 0x35, 0, 0, 0, 0]);
        self.pushed = Some(Reference { at: self.w.code.offset() - 4, word: address });
        self.w.state.stack += 8;
        self.w.mark();
    }

    fn look_up(&mut self) {
        stubs::branch(&mut self.w, self.around.table, self.around.stubs.miss);
    }

    /// Brings the target of an indirect jump or call to rcx.
    fn load_target(&mut self, instruction: &Instruction) {
        stubs::free_rcx(&mut self.w);
        if instruction.op0_kind() == OpKind::Register {
            let from = Gpr::containing(instruction.op0_register()).expect("flow() lets only 64-bit operands pass");
            return self.w.code.copy(Gpr::RCX, from);
        }
        if instruction.is_ip_rel_memory_operand() {
            let word = instruction.ip_rel_memory_address();
            // mov rcx, [rip + distance]
            let distance = word.wrapping_sub(self.w.code.here() + 7) as i64;
            if let Ok(distance) = i32::try_from(distance) {
                self.w.code.bytes(&[0x48, 0x8B, 0x0D]);
                return self.w.code.bytes(&distance.to_le_bytes());
            }
            if let Ok(absolute) = i32::try_from(word) {
                // mov rcx, [absolute]
                self.w.code.bytes(&[0x48, 0x8B, 0x0C, 0x25]);
                return self.w.code.bytes(&absolute.to_le_bytes());
            }
            self.w.code.constant(Gpr::RCX, word);
            return self.w.code.load(Gpr::RCX, Operand::at(Gpr::RCX, 0));
        }
        let bytes = self.block.bytes_of(instruction);
        let at = operation(bytes);
        // Of the prefixes only those of the address mean anything to a load.
        for &prefix in bytes[..legacy_prefixes(bytes)].iter().filter(|b| matches!(b, 0x64 | 0x67)) {
            self.w.code.bytes(&[prefix]);
        }
        let rex = if bytes[at - usize::from(at > 0)] & 0xF0 == 0x40 && at > 0 { bytes[at - 1] & 3 } else { 0 };
        self.w.code.bytes(&[0x48 | rex, 0x8B, bytes[at + 1] & 0xC7 | Gpr::RCX.low() << 3]);
        self.w.code.bytes(&bytes[at + 2..]);
    }
}
