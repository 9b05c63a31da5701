//! What code accesses, found by running it natively one instruction at a time.
//!
//! The trap flag makes the processor stop behind each instruction. The handler decodes
//! the next one and computes its addresses from the registers that the processor has:
//! no block, no check, no shadow. Most instructions with masks, and all with vectors of
//! indices, have tests of their own.

use crate::observe::Bytes;
use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Registers and instruction pointer between two instructions.
#[derive(Clone, Copy)]
struct Stop {
    general: [u64; 16],
    ip: u64,
    fs: u64,
    masks: [u64; 8],
}

thread_local! {
    static STOPS: Cell<*mut Vec<Stop>> = const { Cell::new(std::ptr::null_mut()) };
}

extern "C" fn on_trap(_signal: i32, _info: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
    // SAFETY: the kernel gives a context, and the list is this thread's.
    let (registers, stops) = unsafe { (&(*context).uc_mcontext.gregs, &mut *STOPS.get()) };
    let fs: u64;
    // SAFETY: libc keeps the base of fs there.
    unsafe { std::arch::asm!("mov {}, fs:[0]", out(reg) fs, options(nostack, readonly)) };
    if stops.len() < stops.capacity() {
        stops.push(Stop {
            general: crate::process::INDEX.map(|index| registers[index as usize] as u64),
            ip: registers[libc::REG_RIP as usize] as u64,
            fs,
            // SAFETY: the kernel puts the processor's whole state there.
            masks: unsafe { masks((*context).uc_mcontext.fpregs.cast()) },
        });
    }
}

static MASKS: AtomicUsize = AtomicUsize::new(0);

/// The mask registers in a state as `xsave` writes it.
unsafe fn masks(state: *const u8) -> [u64; 8] {
    const IN_USE: usize = 512;
    const MASKS_IN_USE: u64 = 1 << 5;
    let offset = MASKS.load(Ordering::Relaxed);
    // SAFETY: the caller's promise; the offset is what the processor says, or zero if it has no such registers.
    unsafe {
        let in_use = state.add(IN_USE).cast::<u64>().read_unaligned() & MASKS_IN_USE != 0;
        if in_use && offset != 0 { state.add(offset).cast::<[u64; 8]>().read_unaligned() } else { [0; 8] }
    }
}

static TRAPS: Mutex<()> = Mutex::new(());

/// Lets traps of the process come to `handler`, on a stack of its own, as long as the guard lives.
pub(crate) fn handle(
    handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::ucontext_t),
) -> MutexGuard<'static, ()> {
    let guard = TRAPS.lock().unwrap_or_else(PoisonError::into_inner);
    let stack = Box::leak(vec![0u8; 1 << 16].into_boxed_slice());
    // SAFETY: the stack is never given back; the handler has the signature that SA_SIGINFO asks for.
    unsafe {
        let stack = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: stack.len() };
        assert_eq!(libc::sigaltstack(&raw const stack, std::ptr::null_mut()), 0);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut()), 0);
    }
    guard
}

/// What `run` accesses from the instruction on at which it sets the trap flag, and how many instructions that were.
pub(crate) fn watch(run: impl FnOnce()) -> (Bytes, usize) {
    MASKS.store(std::arch::x86_64::__cpuid_count(0xD, 5).ebx as usize, Ordering::Relaxed);
    let traps = handle(on_trap);
    let mut stops = Vec::with_capacity(2_000_000);
    STOPS.set(&raw mut stops);
    run();
    STOPS.set(std::ptr::null_mut());
    drop(traps);
    assert!(stops.len() < stops.capacity(), "the code is too long for this");
    let (mut bytes, mut factory) = (Bytes::default(), InstructionInfoFactory::new());
    for stop in &stops {
        access(stop, &mut bytes, &mut factory);
    }
    (bytes.settled(), stops.len())
}

fn access(stop: &Stop, bytes: &mut Bytes, factory: &mut InstructionInfoFactory) {
    // SAFETY: the processor is about to run this; code is followed by more of it, or by the rest of its page.
    let code = unsafe { std::slice::from_raw_parts(stop.ip as *const u8, 15) };
    let instruction = Decoder::with_ip(64, code, stop.ip, DecoderOptions::NONE).decode();
    assert!(!instruction.is_invalid(), "{code:x?}");
    let repeated =
        instruction.is_string_instruction() && (instruction.has_rep_prefix() || instruction.has_repne_prefix());
    // The processor stops behind each element.
    if repeated && stop.general[1] == 0 {
        return;
    }
    let locked = instruction.has_lock_prefix()
        || instruction.mnemonic() == Mnemonic::Xchg && instruction.op0_kind() == OpKind::Memory
        || instruction.mnemonic() == Mnemonic::Xchg && instruction.op1_kind() == OpKind::Memory;
    for memory in factory.info(&instruction).used_memory() {
        let writes = match memory.access() {
            OpAccess::None | OpAccess::NoMemAccess => continue,
            OpAccess::Read | OpAccess::CondRead => false,
            _ => true,
        };
        if implicit(&instruction, writes) || memory.segment() == Register::FS && memory.displacement() == 0x28 {
            continue;
        }
        let size = if repeated { instruction.memory_size() } else { memory.memory_size() };
        let at = memory
            .virtual_address(0, |register, _, _| {
                Some(match register {
                    Register::FS => stop.fs,
                    segment if segment.is_segment_register() => 0,
                    register => {
                        let value = stop.general[register.full_register().number()];
                        let bits = register.size() * 8;
                        if bits == 64 { value } else { value & ((1 << bits) - 1) }
                    }
                })
            })
            .expect("no vector of indices");
        let set = match (locked, writes) {
            (true, _) => &mut bytes.locked,
            (_, true) => &mut bytes.written,
            _ => &mut bytes.read,
        };
        assert_ne!(size.size(), 0, "{instruction:?} has a test of its own");
        if instruction.op_mask() == Register::None {
            set.extend(at..at + size.size() as u64);
            continue;
        }
        assert!(is_by_element(&instruction), "{instruction:?} has a test of its own");
        let (mask, element) = (stop.masks[instruction.op_mask().number()], size.element_size() as u64);
        for lane in (0..size.size() as u64 / element).filter(|lane| mask >> lane & 1 != 0) {
            set.extend(at + lane * element..at + (lane + 1) * element);
        }
    }
}

/// Whether each bit of the mask is one element of the memory: for what libc uses.
fn is_by_element(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    matches!(instruction.mnemonic(), M::Vmovdqu8 | M::Vmovdqu16 | M::Vpcmpub | M::Vpcmpeqb | M::Vpcmpb | M::Vpsubb)
}

/// Whether it is the stack's own.
fn implicit(instruction: &Instruction, writes: bool) -> bool {
    use Mnemonic as M;
    match instruction.mnemonic() {
        M::Push | M::Pushfq | M::Call => writes,
        M::Pop | M::Popfq | M::Ret => !writes,
        M::Leave | M::Enter | M::Prefetchw | M::Prefetcht0 | M::Prefetcht1 | M::Prefetcht2 | M::Prefetchnta => true,
        _ => false,
    }
}
