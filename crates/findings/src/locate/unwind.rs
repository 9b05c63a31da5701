//! The walk from a snapshot outwards, frame by frame.
//!
//! Apart from the tables because it goes from file to file, and decides where to stop: where
//! the outermost frame says that it is, outside of every module's code, at the end of what
//! was kept of the stack, or where the next frame could only be guessed.

use super::machine::{Memory, Registers};
use super::modules::{Modules, Undescribed};
use super::pieces::stepped_over;
use super::signal;
use super::tables::Caller;
use crate::raw::{RawStack, Snapshot};

/// Frames of one stack.
pub(super) const FRAMES_MAX: usize = 128;

/// The frames of a snapshot, as far as they are known; the innermost is always there.
pub(super) fn unwind(modules: &Modules, snapshot: &Snapshot) -> RawStack {
    unwind_to(modules, snapshot, &mut |_| {})
}

/// The same; `each` gets the registers of each caller.
pub(super) fn unwind_to(modules: &Modules, snapshot: &Snapshot, each: &mut dyn FnMut(&Registers)) -> RawStack {
    let memory = Memory::new(snapshot);
    let mut registers = Registers::new(snapshot);
    let mut stack = RawStack::of_access(vec![snapshot.registers[0]]);
    let mut exact = true;
    while let Some(caller) = caller(modules, &registers, exact, memory) {
        let caller = stepped_over(caller, memory);
        let index = stack.addresses.len() - 1;
        if caller.interrupted && !exact {
            // The kernel had the handler return to the start of this code, which nothing called.
            stack.exact.push(index);
        }
        if stack.slots.len() == index {
            // A gap would give the slots behind it to other frames.
            stack.slots.extend(caller.slot);
        }
        let Some(next) = caller.registers.filter(|_| index + 1 < FRAMES_MAX) else { break };
        let outwards = caller.interrupted || next.get(Registers::RSP) > registers.get(Registers::RSP);
        let address = next.get(Registers::RIP).unwrap_or(0);
        if !outwards || modules.with_code(place(address, caller.interrupted)).is_none() {
            break;
        }
        stack.addresses.push(address);
        each(&next);
        exact = caller.interrupted;
        if exact {
            stack.exact.push(index + 1);
        }
        registers = next;
    }
    stack
}

/// The code that an address stands for: a call lies before the address to which it returns, and may be the last
/// instruction of its function.
fn place(address: u64, exact: bool) -> u64 {
    address.wrapping_sub(u64::from(!exact))
}

fn caller(modules: &Modules, registers: &Registers, exact: bool, memory: Memory<'_>) -> Option<Caller> {
    let own = registers.get(Registers::RIP)?;
    let place = place(own, exact);
    let module = modules.with_code(place)?;
    // The byte before may be another function's: nothing was called there.
    match module.undescribed(own.wrapping_sub(module.raw.bias)) {
        Some(Undescribed::SignalReturn) => return signal::struck(registers, memory),
        Some(Undescribed::Clone) if exact => return leaf(registers, memory),
        _ => {}
    }
    let address = place.wrapping_sub(module.raw.bias);
    let tables = module.tables().and_then(|tables| Some((tables, tables.find(address)?)));
    match tables {
        Some((tables, entry)) => tables.caller(entry, address, registers, memory),
        None => by_frame_pointer(registers, memory),
    }
}

/// A function that has put nothing on the stack since it was called.
fn leaf(registers: &Registers, memory: Memory<'_>) -> Option<Caller> {
    let slot = registers.get(Registers::RSP)?;
    let mut next = registers.kept();
    next.set(Registers::RIP, Some(memory.word(slot)?));
    next.set(Registers::RSP, Some(slot.checked_add(8)?));
    Some(Caller { registers: Some(next), slot: Some(slot), interrupted: false })
}

/// What nothing is said of keeps its caller's frame pointer and address where its own frame pointer leads, if it has
/// one: one that points elsewhere than to the stack is none.
fn by_frame_pointer(registers: &Registers, memory: Memory<'_>) -> Option<Caller> {
    let frame = registers.get(Registers::RBP)?;
    let slot = frame.checked_add(8)?;
    let mut next = Registers::default();
    next.set(Registers::RBP, Some(memory.word(frame)?));
    next.set(Registers::RIP, Some(memory.word(slot)?));
    next.set(Registers::RSP, Some(slot.checked_add(8)?));
    Some(Caller { registers: Some(next), slot: Some(slot), interrupted: false })
}
