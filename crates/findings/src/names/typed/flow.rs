//! Which register points to what, along all paths of a function.
//!
//! The usual forward analysis (Kildall 1973): blocks are looked at again until nothing changes.
//! Where paths meet, what any of them knows is taken: a register that is used from there on has one meaning,
//! whichever way the code came, and calls that never return seem to lead on with registers of which nothing is known. Apart from
//! the function because it knows instructions and nothing of debug information.

use super::function::{Function, Slot, number};
use super::{Accessed, Found, Pointer};
use iced_x86::{ConditionCode, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};
use relive_sys::atomics::Access;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// What is known at one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    /// What registers point to.
    registers: [Option<Pointer>; 16],
    /// What words on the stack point to, in which compilers keep what they have no register for.
    spilled: BTreeMap<Slot, Pointer>,
}

impl State {
    /// Takes in what another path tells; whether that is more.
    fn meet(&mut self, other: &Self) -> bool {
        let mut is_more = false;
        for (own, other) in self.registers.iter_mut().zip(other.registers) {
            is_more |= own.is_none() && other.is_some();
            *own = own.or(other);
        }
        for (slot, pointer) in &other.spilled {
            is_more |= !self.spilled.contains_key(slot);
            self.spilled.entry(*slot).or_insert(*pointer);
        }
        is_more
    }
}

/// Those that a call leaves as they were: rbx, rsp, rbp, r12 to r15.
const KEPT: [usize; 7] = [3, 4, 5, 12, 13, 14, 15];

/// The analysis of one function.
pub(super) struct Flow<'f, 't, 'c> {
    function: &'f Function<'t, 'c>,
    /// What holds at the beginning of each block, by the number of its first instruction; `None` if no path to it is known.
    blocks: BTreeMap<usize, Option<State>>,
    /// Blocks that no jump names: the function begins there, or a jump to an address from memory leads there.
    indirect: Vec<usize>,
    usage: RefCell<InstructionInfoFactory>,
}

impl<'f, 't, 'c> Flow<'f, 't, 'c> {
    pub(super) fn new(function: &'f Function<'t, 'c>) -> Self {
        let instructions = &function.instructions;
        let mut blocks = BTreeMap::new();
        let mut indirect: BTreeSet<usize> = (0..instructions.len().min(1)).collect();
        for (index, instruction) in instructions.iter().enumerate() {
            if matches!(instruction.flow_control(), FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall) {
                continue;
            }
            blocks
                .extend(target(instruction).and_then(|target| find(instructions, target)).map(|leader| (leader, None)));
            if index + 1 < instructions.len() {
                blocks.insert(index + 1, None);
                indirect.extend((!falls(instruction)).then_some(index + 1));
            }
        }
        for instruction in instructions {
            if let Some(leader) = target(instruction).and_then(|target| find(instructions, target)) {
                indirect.remove(&leader);
            }
        }
        blocks.extend(indirect.iter().map(|leader| (*leader, Some(State::default()))));
        Self {
            function,
            blocks,
            indirect: indirect.into_iter().collect(),
            usage: RefCell::new(InstructionInfoFactory::new()),
        }
    }

    /// Follows all paths.
    pub(super) fn follow(&mut self) {
        let mut pending: BTreeSet<usize> = self.indirect.iter().copied().collect();
        while let Some(block) = pending.pop_first() {
            let state = self.blocks[&block].clone().unwrap_or_default();
            let (next, state) = self.block(block, state, &mut |_, _| {});
            let known = next.into_iter().filter(|next| self.meet(*next, &state));
            pending.extend(known);
        }
    }

    /// Tells what is accessed.
    pub(super) fn tell(&self, found: &mut Found) {
        self.each(&mut |instruction, state| self.tell_of(instruction, state, found));
    }

    /// What the instruction at an address accesses.
    pub(super) fn pointer_at(&self, at: u64) -> Option<Pointer> {
        let mut found = None;
        self.each(&mut |instruction, state| {
            if instruction.ip() == at && has_memory(instruction) {
                found = self.named(instruction, state).0;
            }
        });
        found
    }

    /// Calls `visit` with each instruction, and what is known before it.
    fn each(&self, visit: &mut dyn FnMut(&Instruction, &State)) {
        for (block, state) in &self.blocks {
            self.block(*block, state.clone().unwrap_or_default(), visit);
        }
    }

    /// Takes in what is known at the end of a path that leads to a block; whether that is more than was known there.
    fn meet(&mut self, block: usize, state: &State) -> bool {
        match self.blocks.get_mut(&block) {
            Some(Some(before)) => before.meet(state),
            Some(none) => {
                *none = Some(state.clone());
                true
            }
            None => false,
        }
    }

    /// Goes through a block: where it leads, and what is known then.
    fn block(
        &self,
        first: usize,
        mut state: State,
        visit: &mut dyn FnMut(&Instruction, &State),
    ) -> (Vec<usize>, State) {
        let instructions = &self.function.instructions;
        let end = self.blocks.range(first + 1..).next().map_or(instructions.len(), |(next, _)| *next);
        for instruction in &instructions[first..end] {
            self.function.each_value(instruction.ip(), |register, pointer| {
                state.registers[register].get_or_insert(pointer);
            });
            visit(instruction, &state);
            state = self.after(instruction, state);
        }
        let last = &instructions[end - 1];
        let mut next: Vec<usize> = match last.flow_control() {
            FlowControl::IndirectBranch => self.indirect.clone(),
            _ => target(last).and_then(|target| find(instructions, target)).into_iter().collect(),
        };
        next.extend((falls(last) && end < instructions.len()).then_some(end));
        (next, state)
    }

    fn tell_of(&self, instruction: &Instruction, state: &State, found: &mut Found) {
        if !has_memory(instruction) || instruction.mnemonic() == Mnemonic::Lea {
            return;
        }
        let code = self.function.code_at(instruction.ip());
        let accessed = self.accessed(instruction, state);
        if Access::indivisible_at(code).is_some() {
            found.add(instruction.ip(), accessed, true);
        } else if Access::at(code).is_some() {
            found.add(instruction.ip(), accessed, false);
        }
    }

    fn accessed(&self, instruction: &Instruction, state: &State) -> Accessed {
        let (pointer, own) = self.named(instruction, state);
        self.function.accessed(pointer, address(instruction), instruction.memory_size().size(), own)
    }

    /// What the operand in memory names, and whether that is a variable of the function that nobody else knows.
    fn named(&self, instruction: &Instruction, state: &State) -> (Option<Pointer>, bool) {
        if let Some(address) = address(instruction) {
            return (self.function.fixed(address), false);
        }
        let distance = instruction.memory_displacement64() as i64;
        let [base, index] = [instruction.memory_base(), instruction.memory_index()].map(number);
        if let Some((start, pointer)) = base.and_then(|base| self.function.slot(instruction.ip(), base, distance)) {
            return (Some(pointer), !self.function.has_escaped(start));
        }
        let register = base.filter(|base| state.registers[*base].is_some());
        let register = register.or_else(|| index.filter(|_| instruction.memory_index_scale() == 1));
        let pointer = register.and_then(|register| self.pointed(instruction.ip(), register, distance, state));
        // An array with a fixed address, from which an index counts.
        let array = || if base.is_none() { self.function.fixed(distance as u64) } else { None };
        (pointer.or_else(array), false)
    }

    /// What lies so far from where a register points. What lies before an object is one of those before it in an array, if no variable
    /// is said to begin there: compilers count on, and then go back.
    fn pointed(&self, at: u64, register: usize, distance: i64, state: &State) -> Option<Pointer> {
        let typing = self.function.typing;
        let known = state.registers[register]?.moved(distance, typing);
        let mut found = (known.at >= 0).then_some(known);
        self.function.each_value(at, |other, pointer| {
            let moved = pointer.moved(distance, typing);
            if other == register && found.is_none() && moved.at >= 0 {
                found = Some(moved);
            }
        });
        found.or_else(|| Some(known.wrapped(typing)))
    }

    /// What is known after an instruction.
    fn after(&self, instruction: &Instruction, mut state: State) -> State {
        let result = match instruction.op0_kind() {
            OpKind::Register => {
                number(instruction.op0_register()).filter(|to| *to != STACK).zip(self.result(instruction, &state))
            }
            _ => None,
        };
        spill(instruction, &mut state);
        let mut usage = self.usage.borrow_mut();
        for used in usage.info(instruction).used_registers() {
            let writes = !matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::None);
            if let Some(register) = number(used.register().full_register()).filter(|_| writes) {
                state.registers[register] = None;
                // A call leaves it as it was.
                if !matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall) {
                    state.spilled.retain(|(base, _), _| *base != register);
                }
            }
        }
        if matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall) {
            let kept = |register: usize| state.registers[register].filter(|_| KEPT.contains(&register));
            state.registers = std::array::from_fn(kept);
        }
        if let Some((to, pointer)) = result {
            state.registers[to] = Some(pointer);
        }
        state
    }

    /// What an instruction whose first operand is a register leaves there, if that is known to be a pointer.
    fn result(&self, instruction: &Instruction, state: &State) -> Option<Pointer> {
        let of = |operand: u32| number(instruction.op_register(operand)).and_then(|register| state.registers[register]);
        let moved = |pointer: Pointer, by| Some(pointer.moved(by, self.function.typing));
        let is_register = instruction.op_count() > 1 && instruction.op1_kind() == OpKind::Register;
        match instruction.mnemonic() {
            Mnemonic::Mov if is_register => of(1),
            Mnemonic::Mov if instruction.op1_kind() == OpKind::Memory => {
                let (pointer, _) = self.named(instruction, state);
                let leaf = pointer.map(|pointer| pointer.leaf(self.function.typing, instruction.memory_size().size()));
                let loaded = || address(instruction).and_then(|slot| self.function.loaded(slot));
                let kept = || spilled(instruction).and_then(|slot| state.spilled.get(&slot)).copied();
                leaf.and_then(|leaf| leaf.to).map(|of| Pointer { of, at: 0 }).or_else(loaded).or_else(kept)
            }
            Mnemonic::Mov => self.function.fixed(instruction.try_immediate(1).ok()?),
            Mnemonic::Lea => self.named(instruction, state).0,
            Mnemonic::Add if is_register => of(0).or_else(|| of(1)),
            Mnemonic::Add => moved(of(0)?, instruction.try_immediate(1).ok()? as i64),
            Mnemonic::Sub if !is_register => moved(of(0)?, (instruction.try_immediate(1).ok()? as i64).wrapping_neg()),
            _ if is_register && instruction.op0_kind() == OpKind::Register => match instruction.condition_code() {
                ConditionCode::None => None,
                _ => of(0).filter(|one| of(1) == Some(*one)),
            },
            _ => None,
        }
    }
}

/// Takes in what an instruction stores on the stack.
fn spill(instruction: &Instruction, state: &mut State) {
    let Some(slot) = spilled(instruction).filter(|_| instruction.op0_kind() == OpKind::Memory) else { return };
    let stored = match instruction.mnemonic() {
        Mnemonic::Mov if instruction.op1_kind() == OpKind::Register => {
            number(instruction.op1_register()).and_then(|register| state.registers[register])
        }
        Mnemonic::Cmp | Mnemonic::Test => return,
        _ => None,
    };
    match stored {
        Some(pointer) => state.spilled.insert(slot, pointer),
        None => state.spilled.remove(&slot),
    };
}

/// The word on the stack that an instruction names.
fn spilled(instruction: &Instruction) -> Option<Slot> {
    let base = number(instruction.memory_base()).filter(|base| matches!(*base, STACK | FRAME));
    let is_word = has_memory(instruction) && instruction.memory_index() == Register::None;
    base.filter(|_| is_word).map(|base| (base, instruction.memory_displacement64() as i64))
}

const FRAME: usize = 5;
const STACK: usize = 4;

fn has_memory(instruction: &Instruction) -> bool {
    instruction.op_kinds().any(|kind| kind == OpKind::Memory)
}

/// The address that an operand in memory names by itself.
fn address(instruction: &Instruction) -> Option<u64> {
    let (base, index) = (instruction.memory_base(), instruction.memory_index());
    let is_bare = matches!(base, Register::RIP | Register::None) && index == Register::None;
    let is_own = matches!(instruction.segment_prefix(), Register::FS | Register::GS);
    (is_bare && !is_own && has_memory(instruction)).then(|| instruction.memory_displacement64())
}

fn target(instruction: &Instruction) -> Option<u64> {
    let is_jump =
        matches!(instruction.flow_control(), FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch);
    is_jump.then(|| instruction.near_branch_target())
}

/// Whether the next instruction may follow.
fn falls(instruction: &Instruction) -> bool {
    !matches!(
        instruction.flow_control(),
        FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return | FlowControl::Exception
    )
}

fn find(instructions: &[Instruction], at: u64) -> Option<usize> {
    instructions.binary_search_by_key(&at, Instruction::ip).ok()
}
