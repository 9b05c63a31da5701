//! The handler of the signal that changed instructions raise, which is the
//! program's, too.
//!
//! In assembly because a signal that is for the program goes on to its handler as
//! if we had not been there: on the frame that the kernel made, with nothing of
//! ours on the stack.

use crate::signal::{Context, Info};
use crate::syscall::number::RT_SIGACTION;
use crate::syscall::syscall6;
use core::arch::global_asm;
use core::sync::atomic::{AtomicPtr, Ordering};

/// Decides what becomes of a signal: 0 if it was ours, else the handler that it is for.
pub type Decide = unsafe extern "C" fn(signal: i32, info: *mut Info, context: *mut Context) -> usize;

#[repr(transparent)]
struct Target(AtomicPtr<()>);

static DECIDE: Target = Target(AtomicPtr::new(core::ptr::null_mut()));

const SA_SIGINFO: u64 = 4;
const SA_RESTORER: u64 = 0x0400_0000;
const SA_NODEFER: u64 = 0x4000_0000;

global_asm!(
    ".globl relive_fault",
    ".hidden relive_fault",
    ".type relive_fault,@function",
    "relive_fault:",
    ".cfi_startproc",
    "push rdi",
    ".cfi_adjust_cfa_offset 8",
    "push rsi",
    ".cfi_adjust_cfa_offset 8",
    "push rdx",
    ".cfi_adjust_cfa_offset 8",
    "call qword ptr [rip + {decide}]",
    "pop rdx",
    ".cfi_adjust_cfa_offset -8",
    "pop rsi",
    ".cfi_adjust_cfa_offset -8",
    "pop rdi",
    ".cfi_adjust_cfa_offset -8",
    "test rax, rax",
    "jz 1f",
    "jmp rax",
    // The way back may be the program's own, which is a call that comes to us by another trap.
    "1:",
    "lea rsp, [rsp + 8]",
    "jmp {restorer}",
    ".cfi_endproc",
    ".size relive_fault, . - relive_fault",
    decide = sym DECIDE,
    restorer = sym relive_sigaction_restorer,
);

unsafe extern "C" {
    fn relive_fault();
    fn relive_sigaction_restorer();
}

/// Lets `decide` see a signal that is ours and the program's from here on. `flags` are those of the program's own action
/// that the kernel must know.
pub fn install(signal: u32, flags: u64, decide: Decide) -> bool {
    let restorer = relive_sigaction_restorer as *const () as u64;
    let action = [0, SA_SIGINFO | SA_RESTORER | SA_NODEFER | flags, restorer, 0];
    // SAFETY: the kernel reads an action of four words; the handler keeps to what a signal handler may do.
    unsafe {
        let action = in_front(&action, decide);
        syscall6(RT_SIGACTION, signal as usize, action.as_ptr().addr(), 0, 8, 0, 0) == 0
    }
}

/// An action of the program's whose signals `decide` sees first.
pub fn in_front(action: &[u64; 4], decide: Decide) -> [u64; 4] {
    DECIDE.0.store(decide as *mut (), Ordering::Release);
    let [_, flags, restorer, mask] = *action;
    [relive_fault as *const () as u64, flags | SA_SIGINFO, restorer, mask]
}

/// Whether an action is one that [`in_front`] returned.
pub fn is_in_front(action: &[u64; 4]) -> bool {
    action[0] == relive_fault as *const () as u64
}
