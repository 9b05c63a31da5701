//! Syscall User Dispatch: every system call that the program makes, from
//! whichever instruction, comes to a handler of ours instead of the kernel.
//!
//! The kernel lets calls through that stand in one range of addresses: the code
//! of the library that contains this file. Everything else raises `SIGSYS`. The
//! handler changes the registers that the program goes on with; where a call
//! cannot be made from inside a handler (it would return on another stack, or
//! throw away the handler's own frame), the program is sent through a few
//! instructions here that make it.
//!
//! Dispatch belongs to one thread and ends with `exec`; new threads and forks
//! start without it.

use crate::signal::{Context, Info, own_code};
use crate::sites;
use crate::syscall::number::{PRCTL, RT_SIGACTION};
use crate::syscall::syscall6;
use crate::vectors::{give_vectors_back, keep_vectors};
use core::arch::global_asm;
use core::sync::atomic::{AtomicPtr, Ordering};

/// `SIGSYS`.
pub const SIGSYS: u32 = 31;
/// `si_code` of a dispatched call.
pub const SYS_USER_DISPATCH: i32 = 2;

const PR_SET_SYSCALL_USER_DISPATCH: usize = 59;
const SA_SIGINFO: u64 = 4;
const SA_RESTORER: u64 = 0x0400_0000;
const SA_NODEFER: u64 = 0x4000_0000;

/// Makes the kernel hand over each further system call of the calling thread. `false` if this kernel can't.
pub fn arm() -> bool {
    let code = own_code();
    // SAFETY: no pointers; the range is this library's code, whose calls go through as before.
    unsafe { syscall6(PRCTL, PR_SET_SYSCALL_USER_DISPATCH, 1, code.start, code.len(), 0, 0) == 0 }
}

/// Whether this kernel can hand calls over.
pub fn is_supported() -> bool {
    // SAFETY: no pointers; it is off for the calling thread, and stays so.
    unsafe { syscall6(PRCTL, PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0, 0) == 0 }
}

/// Ends what [`arm`] began, in whichever image that was.
pub fn disarm() {
    // SAFETY: no pointers.
    unsafe { syscall6(PRCTL, PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0, 0) };
}

/// The kernel's form of an action, not libc's.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct KernelAction {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

impl KernelAction {
    pub(crate) const DEFAULT: Self = Self { handler: 0, flags: 0, restorer: 0, mask: 0 };
}

/// What receives the calls.
pub type Handler = unsafe extern "C" fn(number: i32, info: *mut Info, context: *mut Context);

/// Installs the handler of `SIGSYS`. It may be interrupted by itself: signal handlers of the program run, and make
/// calls, while a call of theirs is under way.
pub fn install(handler: Handler) -> bool {
    let action = action_of(handler);
    // SAFETY: the kernel reads the action; the handler keeps to what a signal handler may do.
    unsafe { syscall6(RT_SIGACTION, SIGSYS as usize, (&raw const action).addr(), 0, 8, 0, 0) == 0 }
}

/// A handler of ours that may be interrupted by itself.
pub(crate) fn action_of(handler: Handler) -> KernelAction {
    let restorer = relive_sigaction_restorer as *const () as usize;
    KernelAction { handler: handler as usize, flags: SA_SIGINFO | SA_RESTORER | SA_NODEFER, restorer, mask: 0 }
}

// Ends a handler. No call frame information: unwinders and debuggers know a signal frame by these very bytes. They
// look for information at the byte before, which must not belong to a function that has some. gdb looks at the bytes only
// where the symbol's name has `sigaction` in it.
global_asm!(
    ".balign 16",
    ".skip 16, 0x90",
    ".globl relive_sigaction_restorer",
    ".hidden relive_sigaction_restorer",
    ".type relive_sigaction_restorer,@function",
    "relive_sigaction_restorer:",
    "mov rax, 15",
    "syscall",
    ".size relive_sigaction_restorer, . - relive_sigaction_restorer",
);

global_asm!(
    ".globl relive_program_call",
    ".hidden relive_program_call",
    ".type relive_program_call,@function",
    "relive_program_call:",
    // A cancellation unwinds from here.
    ".cfi_startproc",
    "mov rax, rdi",
    "mov r11, rsi",
    "mov rdi, [r11]",
    "mov rsi, [r11 + 8]",
    "mov rdx, [r11 + 16]",
    "mov r10, [r11 + 24]",
    "mov r8, [r11 + 32]",
    "mov r9, [r11 + 40]",
    "syscall",
    ".globl relive_program_call_end",
    ".hidden relive_program_call_end",
    "relive_program_call_end:",
    "ret",
    ".cfi_endproc",
    ".size relive_program_call, . - relive_program_call",
);

global_asm!(
    ".globl relive_program_clone",
    ".hidden relive_program_clone",
    ".type relive_program_clone,@function",
    "relive_program_clone:",
    "syscall",
    "test rax, rax",
    "jz 1f",
    // The parent, below its red zone. A system call leaves all registers but three.
    "push rbp",
    "mov rbp, rsp",
    "and rsp, -16",
    "sub rsp, 304",
    "mov [rsp + 256], rdi",
    "mov [rsp + 264], rsi",
    "mov [rsp + 272], rdx",
    "mov [rsp + 280], r10",
    "mov [rsp + 288], r8",
    "mov [rsp + 296], r9",
    keep_vectors!(),
    "mov rsi, rax",
    "call qword ptr [rip + {after}]",
    give_vectors_back!(),
    "mov rdi, [rsp + 256]",
    "mov rsi, [rsp + 264]",
    "mov rdx, [rsp + 272]",
    "mov r10, [rsp + 280]",
    "mov r8, [rsp + 288]",
    "mov r9, [rsp + 296]",
    "mov rsp, rbp",
    "pop rbp",
    "ret 128",
    // The child, on its own stack.
    "1:",
    "push rdi",
    "push rsi",
    "push rdx",
    "push r10",
    "push r8",
    "push r9",
    "mov eax, 157",
    "mov edi, 59",
    "mov esi, 1",
    "lea rdx, [rip + __ehdr_start]",
    "lea r10, [rip + etext]",
    "sub r10, rdx",
    "xor r8d, r8d",
    "syscall",
    // What the parent laid below the place to go on at.
    "mov rdi, [rsp + 48]",
    "test rdi, rdi",
    "jz 2f",
    "mov [rsp + 48], rbp",
    "mov rbp, rsp",
    "and rsp, -16",
    "call qword ptr [rip + {child}]",
    "mov rsp, rbp",
    "mov rbp, [rsp + 48]",
    "2:",
    "pop r9",
    "pop r8",
    "pop r10",
    "pop rdx",
    "pop rsi",
    "pop rdi",
    "lea rsp, [rsp + 8]",
    "xor eax, eax",
    "ret",
    ".size relive_program_clone, . - relive_program_clone",
    after = sym AFTER_CLONE,
    child = sym IN_CHILD,
);

/// What a child of a `clone` calls first, with what its parent gave it.
static IN_CHILD: AfterClone = AfterClone(AtomicPtr::new(core::ptr::null_mut()));

/// What the parent's side of a `clone` calls with its flags and its result, and returns the result of.
static AFTER_CLONE: AfterClone = AfterClone(AtomicPtr::new(unchanged as *mut ()));

#[repr(transparent)]
struct AfterClone(AtomicPtr<()>);

extern "C" fn unchanged(_flags: usize, result: isize) -> isize {
    result
}

/// Sets what the parent's side of each `clone` on a stack of its own calls with its flags and its result; what it
/// returns is the program's result. A child that was given something calls `child` with it first.
pub fn after_clone(function: extern "C" fn(flags: usize, result: isize) -> isize, child: extern "C" fn(given: usize)) {
    AFTER_CLONE.0.store(function as *mut (), Ordering::Release);
    IN_CHILD.0.store(child as *mut (), Ordering::Release);
}

unsafe extern "C" {
    fn relive_program_call(number: usize, arguments: *const [usize; 6]) -> isize;
    static relive_program_call_end: [u8; 0];
    fn relive_program_clone();
    fn relive_sigaction_restorer();
}

/// Makes a call of the program's. A signal that arrives meanwhile finds the thread at a place that
/// [`is_program_call`] knows.
///
/// # Safety
/// As for the call itself.
pub unsafe fn program_call(number: usize, arguments: &[usize; 6]) -> isize {
    // SAFETY: forwarded.
    unsafe { relive_program_call(number, arguments) }
}

/// Whether a thread at `place` is in, or just behind, a call made by [`program_call`] or for a site's handler.
pub fn is_program_call(place: usize) -> bool {
    let start = relive_program_call as *const () as usize;
    (start..=(&raw const relive_program_call_end).addr()).contains(&place) || sites::is_call(place)
}

const RED_ZONE: u64 = 128;

impl Context {
    /// Ends the program's own handler, whose frame stands where the stack pointer points, once ours has returned.
    pub fn leave_handler(&mut self) {
        self.set_place(relive_sigaction_restorer as *const () as usize);
    }

    /// Makes the trapped `clone`, which gives the child the stack `argument 1`, once our handler has returned. The child
    /// starts with what is `given`, unless that is 0.
    ///
    /// # Safety
    /// The context must be of a trapped `clone` with a stack.
    pub unsafe fn clone_on_return(&mut self, given: usize) {
        let back = self.place() as u64;
        let (own, child) = (self.stack_pointer() - RED_ZONE - 8, self.argument(1) - 16);
        // SAFETY: below the program's red zone nothing lives, nor above the end of a stack that nobody runs on yet.
        unsafe {
            (own as *mut u64).write(back);
            (child as *mut [u64; 2]).write([given as u64, back]);
        }
        self.set_stack_pointer(own);
        self.set_argument(1, child);
        self.set_place(relive_program_clone as *const () as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::{arm, install, is_program_call, program_call};
    use crate::signal::{Context, Info};
    use crate::syscall::number::{FORK, GETPID, MPROTECT, WAIT4};
    use std::sync::atomic::{AtomicUsize, Ordering};

    static SEEN: AtomicUsize = AtomicUsize::new(0);

    unsafe extern "C" fn add_one(_number: i32, _info: *mut Info, context: *mut Context) {
        // SAFETY: the kernel's context.
        let context = unsafe { &mut *context };
        SEEN.store(context.number(), Ordering::Relaxed);
        context.set_result(context.argument(0) as isize + 1);
    }

    #[test]
    fn calls_of_other_code_come_to_the_handler_and_own_ones_do_not() {
        // Machine code outside of this program's text: `mov eax, edi; mov rdi, rsi; syscall; ret`.
        const CODE: [u8; 8] = [0x89, 0xF8, 0x48, 0x89, 0xF7, 0x0F, 0x05, 0xC3];
        let page = crate::syscall::mmap(4096, crate::syscall::MAP_PRIVATE_ANONYMOUS, -1, 0);
        assert!(page > 0);
        // SAFETY: a fresh page of our own, made executable (5 is read and execute).
        let call: extern "C" fn(u32, usize) -> isize = unsafe {
            core::ptr::copy_nonoverlapping(CODE.as_ptr(), page as *mut u8, CODE.len());
            assert_eq!(program_call(MPROTECT, &[page as usize, 4096, 5, 0, 0, 0]), 0);
            core::mem::transmute(page)
        };
        // Dispatch stays with the thread, which ends by calls of libc's: they get wrong answers from here on.
        // SAFETY: fork in a test; the child makes no call but through our own code.
        let child = unsafe { program_call(FORK, &[0; 6]) };
        if child == 0 {
            let ok = install(add_one)
                && arm()
                && call(GETPID as u32, 1233) == 1234
                && SEEN.load(Ordering::Relaxed) == GETPID;
            crate::syscall::exit_group(u32::from(!ok));
        }
        let mut status = 0i32;
        // SAFETY: wait4 writes the status.
        let reaped = unsafe { program_call(WAIT4, &[child as usize, (&raw mut status).addr(), 0, 0, 0, 0]) };
        assert_eq!((reaped, status), (child, 0));
        assert!(!is_program_call(page as usize));
    }
}
