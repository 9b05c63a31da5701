//! The frame that the kernel puts on a stack for a signal's handler, where no table tells
//! of it.
//!
//! Apart from the tables because here code says it: the handler returns to two instructions
//! that ask the kernel to take everything back, from where the stack pointer is then. Unwinders
//! and debuggers know a signal's frame by these very bytes, so those who write such code give
//! it no call frame information, our own library among them.

use super::machine::{Memory, Registers};
use super::tables::Caller;

/// `mov rax, 15; syscall`: `rt_sigreturn`.
pub(super) const RETURN: [u8; 9] = [0x48, 0xC7, 0xC0, 0x0F, 0, 0, 0, 0x0F, 0x05];
/// From the stack pointer to the registers: the flags, the link and the stack of a `struct ucontext`.
const REGISTERS: u64 = 40;
/// The registers by their numbers in DWARF, as they follow each other (`struct sigcontext`).
const ORDER: [u16; 17] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16];

/// Who was struck, of a frame that is about to run [`RETURN`].
pub(super) fn struck(registers: &Registers, memory: Memory<'_>) -> Option<Caller> {
    let first = registers.get(Registers::RSP)?.checked_add(REGISTERS)?;
    let mut next = Registers::default();
    let mut slot = first;
    for (number, at) in ORDER.into_iter().zip((first..).step_by(8)) {
        next.set(number, Some(memory.word(at)?));
        slot = at;
    }
    Some(Caller { registers: Some(next), slot: Some(slot), interrupted: true })
}

#[cfg(test)]
mod tests {
    use super::struck;
    use crate::locate::machine::{Memory, Registers};
    use crate::raw::Snapshot;

    #[test]
    fn every_register_is_where_the_kernel_puts_it() {
        // In the order of `struct sigcontext`: r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip.
        let words = [0; 5].into_iter().chain(100..117);
        let mut snapshot = Snapshot { registers: [0, 0x7000, 0, 0, 0, 0, 0, 0], words: words.collect() };
        let caller = struck(&Registers::new(&snapshot), Memory::new(&snapshot)).expect("all words");
        let registers = caller.registers.expect("registers");
        let all: Vec<_> = (0..17).filter_map(|number| registers.get(number)).collect();
        assert_eq!(all, [113, 112, 114, 111, 109, 108, 110, 115, 100, 101, 102, 103, 104, 105, 106, 107, 116]);
        assert_eq!((caller.slot, caller.interrupted), (Some(0x7000 + 21 * 8), true));
        snapshot.words.pop();
        assert!(struck(&Registers::new(&snapshot), Memory::new(&snapshot)).is_none(), "a part of them is nothing");
    }
}
