//! What a program that goes on from a stand point can still see of it.
//!
//! A walk over the code from there on, along both sides of each branch, into the
//! functions that are called and out of those that return, until it gets too long.
//! A register is live if some instruction uses its value before another is written
//! there. Moving it is no use: a function saves and restores registers that mean
//! nothing to it, and behind our own fronts some hold garbage. So the walk follows
//! where values come from, and a register or a piece of memory is live once what
//! came from it is used. Addresses are known as long as they come from the stand
//! point's registers and memory.
//!
//! A loop may be far out: what it calls returns, and returns again, before it counts on,
//! and nothing else may tell its passages apart. So a walk begins at each caller's return,
//! too, with the registers that were kept for it, and takes both sides of a branch by turns.
//! Of what these walks read only such registers count: other memory may be written before
//! it is read, by what is called or by another thread.

mod operands;

use super::is_ours;
use super::memory::Memory;
use iced_x86::{Code, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register, UsedMemory};
use operands::{keeps_half, kernel_flags, number, reads, vector, writes};
use relive_findings::locate::Waiting;
use relive_trace::stand::{RIP, RSP, Stand};
use std::collections::{BTreeSet, VecDeque};

/// Instructions looked at.
const STEPS: usize = 1500;
/// Those of each walk from a caller on.
const STEPS_OUT: usize = 400;
/// Those of one path of it before others have their turn.
const TURN: usize = 16;
/// Callers.
const CALLERS: usize = 16;
/// Instructions within which a vector register must be used: most instructions on them read what means nothing, too.
const NEAR: u32 = 48;
/// Index in the kernel's context by the processor's number of a register.
const INDEX: [usize; 16] = [13, 14, 12, 11, 15, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7];
const STACK: usize = 4;
const RESULT: usize = 0;
/// Registers that a call leaves as they were.
const SAVED: [usize; 7] = [3, STACK, 5, 12, 13, 14, 15];
/// Those that are told of callers, by the processor's numbers.
const KEPT: [usize; 6] = [3, 5, 12, 13, 14, 15];
/// The flags that programs compute with.
const FLAGS: u64 = 0x8D5;

/// What is live.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Live {
    general: u32,
    vectors: u32,
    pub(super) flags: u64,
    /// Addresses and lengths.
    pub(super) memory: BTreeSet<(u64, u64)>,
}

impl Live {
    /// General registers, by their index in the kernel's context.
    pub(super) fn registers(&self) -> impl Iterator<Item = usize> + use<> {
        let general = self.general;
        (0..16).filter(move |number| general >> number & 1 != 0).map(|number| INDEX[number])
    }

    /// Registers whose index `means_nothing` are not live.
    pub(super) fn forget(&mut self, means_nothing: impl Fn(usize) -> bool) {
        for number in (0..16).filter(|&number| means_nothing(INDEX[number])) {
            self.general &= !(1 << number);
        }
    }

    /// In the form of the answer.
    pub(super) fn mask(&self) -> u64 {
        self.registers().fold(u64::from(self.vectors) << 16, |mask, index| mask | 1 << index)
    }
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// It was computed behind the stand point, or is live already.
    Nowhere,
    Register(usize),
    Memory(u64, u64),
}

#[derive(Clone, Copy, Debug)]
struct Value {
    known: Option<u64>,
    from: From,
}

const COMPUTED: Value = Value { known: None, from: From::Nowhere };

#[derive(Clone, Debug)]
struct State {
    ip: u64,
    general: [Value; 16],
    vectors: u32,
    flags: u64,
    stored: Vec<(u64, u64, Value)>,
    steps: u32,
}

/// Walks from a stand point. Returns also where the instructions begin that it came by.
///
/// `callers` wait for the function in which it is.
pub(super) fn from(stand: &Stand<'_>, memory: &Memory, callers: &[Waiting]) -> (Live, BTreeSet<u64>) {
    let register = |number: usize| Value { known: Some(stand.register(INDEX[number])), from: From::Register(number) };
    let start = State {
        ip: stand.register(RIP),
        general: std::array::from_fn(register),
        vectors: 0,
        flags: 0,
        stored: Vec::new(),
        steps: 0,
    };
    let mut walk = Walk {
        stand,
        memory,
        live: Live::default(),
        factory: InstructionInfoFactory::new(),
        left: STEPS,
        seen: BTreeSet::new(),
        waiting: VecDeque::from([start]),
        kept: None,
    };
    walk.drain();
    let seen = std::mem::take(&mut walk.seen);
    let outwards = callers.iter().take(CALLERS).take_while(|caller| !is_ours(caller.address));
    for caller in outwards {
        walk.go_on_in(caller);
    }
    (walk.live, seen)
}

struct Walk<'a> {
    stand: &'a Stand<'a>,
    memory: &'a Memory,
    live: Live,
    factory: InstructionInfoFactory,
    left: usize,
    seen: BTreeSet<u64>,
    waiting: VecDeque<State>,
    /// In a walk from a caller on: where the registers are that were kept for it.
    kept: Option<Vec<u64>>,
}

impl Walk<'_> {
    fn drain(&mut self) {
        while let Some(state) = self.waiting.pop_front() {
            self.follow(state);
        }
    }

    fn go_on_in(&mut self, caller: &Waiting) {
        let mut general = [COMPUTED; 16];
        for (number, kept) in KEPT.into_iter().zip(caller.registers) {
            if let Some((value, slot)) = kept {
                let from = slot.map_or(From::Register(number), |slot| From::Memory(slot, 8));
                general[number] = Value { known: Some(value), from };
            }
        }
        general[STACK].known = Some(caller.stack);
        self.kept = Some(caller.registers.iter().flatten().filter_map(|&(_, slot)| slot).collect());
        (self.left, self.seen) = (STEPS_OUT, BTreeSet::new());
        let (vectors, flags) = (u32::MAX, u64::MAX);
        self.waiting.push_back(State { ip: caller.address, general, vectors, flags, stored: Vec::new(), steps: NEAR });
        self.drain();
    }

    fn follow(&mut self, mut state: State) {
        let out = self.kept.is_some();
        for _ in 0..if out { TURN } else { STEPS } {
            if self.left == 0 || out && is_ours(state.ip) || !self.seen.insert(state.ip) {
                return;
            }
            (self.left, state.steps) = (self.left - 1, state.steps + 1);
            let next = self.memory.instruction(state.ip);
            // What is behind a system call is another operation.
            if next.is_invalid() || next.mnemonic() == Mnemonic::Syscall || !self.step(&mut state, &next) {
                return;
            }
        }
        self.waiting.push_back(state);
    }

    /// Whether the walk goes on from the state.
    fn step(&mut self, state: &mut State, instruction: &Instruction) -> bool {
        let moved = self.transfer(state, instruction);
        if !moved {
            self.use_operands(state, instruction);
        }
        match instruction.flow_control() {
            FlowControl::Next => {
                state.ip = instruction.next_ip();
                true
            }
            FlowControl::ConditionalBranch => {
                let mut other = state.clone();
                other.ip = instruction.near_branch_target();
                self.waiting.push_back(other);
                state.ip = instruction.next_ip();
                true
            }
            FlowControl::UnconditionalBranch => {
                state.ip = instruction.near_branch_target();
                true
            }
            FlowControl::IndirectBranch => {
                let to = self.indirect(state, instruction);
                if to.is_none() {
                    // An interpreter's next step may be anywhere in it: what calls leave alone it needs.
                    for number in SAVED {
                        self.take(state.general[number]);
                    }
                }
                to.map(|to| state.ip = to).is_some()
            }
            FlowControl::Call | FlowControl::IndirectCall => self.call(state, instruction),
            FlowControl::Return => {
                let Some(to) = self.load(state, state.general[STACK].known, 8).known else {
                    self.take(state.general[RESULT]);
                    return false;
                };
                self.take(state.general[RESULT]);
                state.general[RESULT] = COMPUTED;
                state.move_stack(8 + i64::from(instruction.immediate16()));
                state.ip = to;
                true
            }
            _ => false,
        }
    }

    fn call(&mut self, state: &mut State, instruction: &Instruction) -> bool {
        let back = instruction.next_ip();
        let mut behind = state.clone();
        for number in (0..16).filter(|number| !SAVED.contains(number)) {
            behind.general[number] = COMPUTED;
        }
        behind.steps = NEAR;
        (behind.ip, behind.vectors, behind.flags) = (back, u32::MAX, u64::MAX);
        if self.kept.is_some() {
            *state = behind;
            return true;
        }
        self.waiting.push_back(behind);
        let to = match instruction.op0_kind() {
            OpKind::NearBranch64 => Some(instruction.near_branch64()),
            _ => self.indirect(state, instruction),
        };
        let Some(to) = to else { return false };
        state.steps = NEAR;
        state.move_stack(-8);
        state.store(state.general[STACK].known, 8, Value { known: Some(back), from: From::Nowhere });
        state.ip = to;
        true
    }

    /// Where a jump by register or memory goes.
    fn indirect(&self, state: &State, instruction: &Instruction) -> Option<u64> {
        match instruction.op0_kind() {
            OpKind::Register => number(instruction.op0_register()).and_then(|n| state.general[n].known),
            OpKind::Memory => {
                let address = state.address(instruction)?;
                let value = self.load(state, Some(address), 8).known;
                // Tables of addresses do not change.
                value.or_else(|| instruction.is_ip_rel_memory_operand().then(|| self.memory.word(address)).flatten())
            }
            _ => None,
        }
    }

    /// An instruction that only moves a whole value from one place to another.
    fn transfer(&mut self, state: &mut State, instruction: &Instruction) -> bool {
        let stack = state.general[STACK].known;
        match instruction.code() {
            Code::Mov_r64_rm64 | Code::Mov_rm64_r64 => {}
            Code::Push_r64 => {
                let value = number(instruction.op0_register()).map_or(COMPUTED, |n| state.general[n]);
                state.move_stack(-8);
                state.store(state.general[STACK].known, 8, value);
                return true;
            }
            Code::Pop_r64 => {
                let value = self.load(state, stack, 8);
                state.move_stack(8);
                state.set(instruction.op0_register(), value);
                return true;
            }
            Code::Add_rm64_imm8 | Code::Add_rm64_imm32 | Code::Sub_rm64_imm8 | Code::Sub_rm64_imm32
                if instruction.op0_kind() == OpKind::Register && instruction.op0_register() == Register::RSP =>
            {
                let by = instruction.immediate(1) as i64;
                state.move_stack(if instruction.mnemonic() == Mnemonic::Add { by } else { -by });
                state.flags |= FLAGS;
                return true;
            }
            Code::Lea_r64_m if instruction.op0_register() == Register::RSP => {
                let known = state.address(instruction);
                self.take_base(state, instruction);
                state.general[STACK] = Value { known, from: From::Nowhere };
                return true;
            }
            Code::Leaveq => {
                let frame = state.general[5];
                self.take(frame);
                state.general[STACK] = Value { known: frame.known, from: From::Nowhere };
                let value = self.load(state, frame.known, 8);
                state.move_stack(8);
                state.general[5] = value;
                return true;
            }
            _ => return false,
        }
        let value = match instruction.op1_kind() {
            OpKind::Memory => {
                self.take_base(state, instruction);
                self.load(state, state.address(instruction), 8)
            }
            _ => number(instruction.op1_register()).map_or(COMPUTED, |n| state.general[n]),
        };
        if instruction.op0_kind() == OpKind::Memory {
            self.take_base(state, instruction);
            state.store(state.address(instruction), 8, value);
        } else {
            state.set(instruction.op0_register(), value);
        }
        true
    }

    fn take_base(&mut self, state: &mut State, instruction: &Instruction) {
        for register in [instruction.memory_base(), instruction.memory_index()] {
            if let Some(number) = number(register) {
                self.take(state.general[number]);
            }
        }
    }

    /// Any other instruction: what it reads is used, what it writes is its own.
    fn use_operands(&mut self, state: &mut State, instruction: &Instruction) {
        let info = self.factory.info(instruction).clone();
        for used in info.used_registers() {
            let reads = reads(used.access());
            if let Some(number) = number(used.register()) {
                let whole = state.general[number];
                if reads && number != STACK {
                    self.take(whole);
                }
            } else if let Some(vector) = vector(used.register())
                && reads
                && !(keeps_half(instruction.mnemonic()) && used.register() == instruction.op0_register())
                // Functions with any number of arguments save registers that mean nothing. The halves that are not wiped
                // are not looked at.
                && !matches!(instruction.mnemonic(), Mnemonic::Movaps | Mnemonic::Vzeroupper)
                && state.steps < NEAR
                && state.vectors >> vector & 1 == 0
            {
                self.live.vectors |= 1 << vector;
            }
        }
        for used in info.used_memory().iter().filter(|used| reads(used.access())) {
            let length = used.memory_size().size() as u64;
            if (1..=64).contains(&length) {
                let value = self.load(state, state.address_of(used), length);
                self.take(value);
            }
        }
        let read = u64::from(instruction.rflags_read());
        self.live.flags |= kernel_flags(read) & !state.flags;
        state.flags |= kernel_flags(u64::from(instruction.rflags_modified()));
        let by = i64::from(instruction.stack_pointer_increment());
        let calls =
            matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall | FlowControl::Return);
        for used in info.used_memory().iter().filter(|used| writes(used.access()) && !calls) {
            state.store(state.address_of(used), used.memory_size().size() as u64, COMPUTED);
        }
        let computed = simple(state, instruction);
        for used in info.used_registers().iter().filter(|used| writes(used.access()) && !calls) {
            if let Some(number) = number(used.register()) {
                if number != STACK {
                    state.general[number] = COMPUTED;
                } else if by != 0 {
                    state.move_stack(by);
                } else {
                    state.general[STACK] = COMPUTED;
                }
            } else if let Some(vector) = vector(used.register())
                && instruction.mnemonic() != Mnemonic::Vzeroupper
            {
                state.vectors |= 1 << vector;
            }
        }
        if let Some((number, known)) = computed {
            state.general[number].known = Some(known);
        }
    }

    /// A value is used.
    fn take(&mut self, value: Value) {
        match value.from {
            From::Nowhere | From::Register(STACK) => {}
            From::Register(number) => self.live.general |= 1 << number,
            From::Memory(address, length) => {
                if self.kept.as_ref().is_none_or(|kept| length == 8 && kept.contains(&address)) {
                    self.live.memory.insert((address, length));
                }
            }
        }
    }

    /// Whether what stands there is of a function that was called behind the stand point, maybe written by one that
    /// the walk does not follow: below the stack of then only a function without calls keeps something.
    fn is_new(&self, state: &State, address: u64) -> bool {
        const FARTHEST: u64 = 1 << 20;
        let stack = self.stand.register(RSP);
        let below = stack.wrapping_sub(address).wrapping_sub(1) < FARTHEST;
        below && state.general[STACK].known != Some(stack)
    }

    fn load(&self, state: &State, address: Option<u64>, length: u64) -> Value {
        let Some(address) = address else { return COMPUTED };
        for &(at, size, value) in state.stored.iter().rev() {
            if at == address && size == length {
                return value;
            }
            if at < address.saturating_add(length) && address < at.saturating_add(size) {
                return COMPUTED;
            }
        }
        if self.is_new(state, address) {
            return COMPUTED;
        }
        let from = From::Memory(address, length);
        let offset = self.stand.offset_of(address, length);
        let known = offset.filter(|_| length == 8).and_then(|offset| self.stand.bytes(offset, 8));
        Value { known, from }
    }
}

impl State {
    fn move_stack(&mut self, by: i64) {
        let stack = &mut self.general[STACK];
        *stack = Value { known: stack.known.map(|at| at.wrapping_add_signed(by)), from: From::Nowhere };
    }

    fn store(&mut self, address: Option<u64>, length: u64, value: Value) {
        const KEPT: usize = 64;
        if let Some(address) = address
            && self.stored.len() < KEPT
        {
            self.stored.push((address, length, value));
        }
    }

    fn set(&mut self, register: Register, value: Value) {
        if let Some(number) = number(register) {
            self.general[number] = value;
        }
    }

    fn address(&self, instruction: &Instruction) -> Option<u64> {
        let operand = (0..instruction.op_count()).find(|&i| instruction.op_kind(i) == OpKind::Memory)?;
        instruction.virtual_address(operand, 0, |register, _, _| self.value(register))
    }

    fn address_of(&self, used: &UsedMemory) -> Option<u64> {
        used.virtual_address(0, |register, _, _| self.value(register))
    }

    fn value(&self, register: Register) -> Option<u64> {
        match register {
            Register::CS | Register::DS | Register::ES | Register::SS => Some(0),
            _ => number(register).and_then(|n| self.general[n].known),
        }
    }
}

/// Values that later addresses are made of.
fn simple(state: &State, instruction: &Instruction) -> Option<(usize, u64)> {
    let to = number(instruction.op0_register()).filter(|_| instruction.op0_kind() == OpKind::Register)?;
    let known = match instruction.code() {
        Code::Lea_r64_m => state.address(instruction)?,
        Code::Mov_r64_imm64 | Code::Mov_rm64_imm32 | Code::Mov_r32_imm32 => instruction.immediate(1),
        Code::Add_rm64_imm8 | Code::Add_rm64_imm32 => state.general[to].known?.wrapping_add(instruction.immediate(1)),
        Code::Sub_rm64_imm8 | Code::Sub_rm64_imm32 => state.general[to].known?.wrapping_sub(instruction.immediate(1)),
        _ => return None,
    };
    Some((to, known))
}

#[cfg(test)]
mod tests;
