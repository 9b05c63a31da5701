//! Crosses between the program's state and our own: the assembly at the border.
//!
//! `relive_dbi_leave` is where the cache jumps when it needs us. It keeps everything
//! the program has in registers, the vector registers included, because what it calls
//! is compiled like any other code; it uses the area's own stack, and puts everything
//! back on its way to the area's target; but for visits where nobody needs vector registers. x87 state stays in the processor: nothing
//! here computes with it.
//!
//! `relive_dbi_go` begins with the area's context, and takes the vector registers as
//! they are. `relive_dbi_call` calls a function as compiled code would, and
//! `relive_dbi_returned` is native: a function that returns there is back for good.

pub(crate) mod border;

use crate::area::{Area, BLOCKED, CONTEXT, EXIT, LEAVE, MASK, SERVE, STACK, TARGET, VECTOR_MASK, VECTORS};
use crate::routine::VISIT_PLAINLY;
use core::arch::{asm, global_asm};
use relive_sys::syscall::syscall6;

const ARCH_PRCTL: usize = 158;
const ARCH_SET_GS: usize = 0x1001;
/// SSE, AVX, and the three parts of AVX-512.
const VECTOR_STATE: u32 = 0xE6;
/// In the mask: the processor has `xsaveopt`, which leaves out what is in its initial state, and what is still as it was
/// last restored from there. A part that no processor has.
const OPTIMIZED: u32 = 1 << 31;

global_asm!(
    ".pushsection .text.relive_dbi,\"ax\",@progbits",
    ".balign 16",
    ".globl relive_dbi_leave",
    ".hidden relive_dbi_leave",
    "relive_dbi_leave:",
    "mov gs:[{context} + 32], rsp",
    "mov rsp, gs:[{stack}]",
    "pushfq",
    "pop qword ptr gs:[{context} + 128]",
    "cld",
    // Our own code reads words wherever they lie: the program's alignment checks are not for it.
    "test byte ptr gs:[{context} + 130], 4",
    "jz 3f",
    "push 0x202",
    "popfq",
    "3:",
    "mov gs:[{context}], rax",
    "mov gs:[{context} + 8], rcx",
    "mov gs:[{context} + 16], rdx",
    "mov gs:[{context} + 24], rbx",
    "mov gs:[{context} + 40], rbp",
    "mov gs:[{context} + 48], rsi",
    "mov gs:[{context} + 56], rdi",
    "mov gs:[{context} + 64], r8",
    "mov gs:[{context} + 72], r9",
    "mov gs:[{context} + 80], r10",
    "mov gs:[{context} + 88], r11",
    "mov gs:[{context} + 96], r12",
    "mov gs:[{context} + 104], r13",
    "mov gs:[{context} + 112], r14",
    "mov gs:[{context} + 120], r15",
    "cmp dword ptr gs:[{exit}], {plainly}",
    "je 4f",
    "mov eax, gs:[{mask}]",
    "xor edx, edx",
    "test eax, {optimized}",
    "jz 5f",
    "xsaveopt64 gs:[{vectors}]",
    "jmp 6f",
    "5:",
    "xsave64 gs:[{vectors}]",
    "6:",
    "mov rdi, gs:[0]",
    "call qword ptr gs:[{serve}]",
    "mov eax, gs:[{mask}]",
    "xor edx, edx",
    "xrstor64 gs:[{vectors}]",
    ".globl relive_dbi_load",
    ".hidden relive_dbi_load",
    "relive_dbi_load:",
    "push qword ptr gs:[{context} + 128]",
    "popfq",
    // Where flags mean nothing: behind a function. Restoring them takes longer than all registers.
    ".globl relive_dbi_load_unflagged",
    ".hidden relive_dbi_load_unflagged",
    "relive_dbi_load_unflagged:",
    "mov rsp, gs:[{context} + 32]",
    // From here on a signal may go to its handler: see border.rs. Flags are the program's, or mean nothing to it.
    ".globl relive_dbi_open",
    ".hidden relive_dbi_open",
    "relive_dbi_open:",
    "mov rcx, gs:[{blocked}]",
    "jrcxz 2f",
    "mov qword ptr gs:[{blocked}], 0",
    "mov edi, 2",
    "mov rsi, gs:[0]",
    "lea rsi, [rsi + {signal_mask}]",
    "mov edx, 0",
    "mov r10d, 8",
    "mov eax, 14",
    "syscall",
    "2:",
    "mov rax, gs:[{context}]",
    "mov rcx, gs:[{context} + 8]",
    "mov rdx, gs:[{context} + 16]",
    "mov rbx, gs:[{context} + 24]",
    "mov rbp, gs:[{context} + 40]",
    "mov rsi, gs:[{context} + 48]",
    "mov rdi, gs:[{context} + 56]",
    "mov r8, gs:[{context} + 64]",
    "mov r9, gs:[{context} + 72]",
    "mov r10, gs:[{context} + 80]",
    "mov r11, gs:[{context} + 88]",
    "mov r12, gs:[{context} + 96]",
    "mov r13, gs:[{context} + 104]",
    "mov r14, gs:[{context} + 112]",
    "mov r15, gs:[{context} + 120]",
    "jmp qword ptr gs:[{target}]",
    ".globl relive_dbi_open_end",
    ".hidden relive_dbi_open_end",
    "relive_dbi_open_end:",
    "4:",
    "mov rdi, gs:[0]",
    "call qword ptr gs:[{serve}]",
    "jmp relive_dbi_load",
    ".balign 16",
    ".globl relive_dbi_go",
    ".hidden relive_dbi_go",
    "relive_dbi_go:",
    "mov rsp, gs:[{stack}]",
    "jmp relive_dbi_load",
    ".balign 16",
    ".globl relive_dbi_call",
    ".hidden relive_dbi_call",
    "relive_dbi_call:",
    ".cfi_startproc",
    "push rbx",
    ".cfi_adjust_cfa_offset 8",
    ".cfi_rel_offset rbx, 0",
    "push rbp",
    ".cfi_adjust_cfa_offset 8",
    ".cfi_rel_offset rbp, 0",
    "push r12",
    ".cfi_adjust_cfa_offset 8",
    ".cfi_rel_offset r12, 0",
    "push r13",
    ".cfi_adjust_cfa_offset 8",
    ".cfi_rel_offset r13, 0",
    "push r14",
    ".cfi_adjust_cfa_offset 8",
    ".cfi_rel_offset r14, 0",
    "push r15",
    ".cfi_adjust_cfa_offset 8",
    ".cfi_rel_offset r15, 0",
    "sub rsp, 8",
    ".cfi_adjust_cfa_offset 8",
    "mov rax, rdi",
    "mov rdi, [rax]",
    "mov rsi, [rax + 8]",
    "mov rdx, [rax + 16]",
    "mov rcx, [rax + 24]",
    "mov r8, [rax + 32]",
    "mov r9, [rax + 40]",
    // An unwinder that comes out of the function looks here, with that address taken off the stack already.
    // Behind the six pushes and eight bytes the stack is aligned; the call's own push is the next.
    "lea rax, [rip + relive_dbi_returned]",
    "push rax",
    "mov eax, 0",
    "jmp qword ptr gs:[{target}]",
    ".globl relive_dbi_returned",
    ".hidden relive_dbi_returned",
    "relive_dbi_returned:",
    "add rsp, 8",
    ".cfi_adjust_cfa_offset -8",
    "pop r15",
    ".cfi_adjust_cfa_offset -8",
    ".cfi_restore r15",
    "pop r14",
    ".cfi_adjust_cfa_offset -8",
    ".cfi_restore r14",
    "pop r13",
    ".cfi_adjust_cfa_offset -8",
    ".cfi_restore r13",
    "pop r12",
    ".cfi_adjust_cfa_offset -8",
    ".cfi_restore r12",
    "pop rbp",
    ".cfi_adjust_cfa_offset -8",
    ".cfi_restore rbp",
    "pop rbx",
    ".cfi_adjust_cfa_offset -8",
    ".cfi_restore rbx",
    "ret",
    ".cfi_endproc",
    ".popsection",
    context = const CONTEXT,
    stack = const STACK,
    mask = const VECTOR_MASK,
    vectors = const VECTORS,
    optimized = const OPTIMIZED,
    serve = const SERVE,
    exit = const EXIT,
    plainly = const VISIT_PLAINLY as i32,
    target = const TARGET,
    blocked = const BLOCKED,
    signal_mask = const MASK,
);

const _: () = assert!(LEAVE == 8, "the first word of the area is its own address");

unsafe extern "C" {
    fn relive_dbi_leave();
    fn relive_dbi_go() -> !;
    fn relive_dbi_call(arguments: *const [u64; 6]) -> u64;
    fn relive_dbi_returned();
}

/// Where the cache jumps when it needs us.
pub(crate) fn leave() -> usize {
    relive_dbi_leave as *const () as usize
}

/// Where functions return that [`call`] called.
pub(crate) fn returned() -> u64 {
    relive_dbi_returned as *const () as u64
}

/// Continues with the context and target of this thread's area.
///
/// # Safety
/// This thread's area is attached and complete.
pub(crate) unsafe fn go() -> ! {
    // SAFETY: the caller's promise.
    unsafe { relive_dbi_go() }
}

/// Calls the function at the area's target.
///
/// # Safety
/// As for [`go`], and as for that function.
pub(crate) unsafe fn call(arguments: &[u64; 6]) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { relive_dbi_call(arguments) }
}

/// Lets gs of this thread point to `area`. `false` if the system refuses.
pub(crate) fn attach(area: *mut Area) -> bool {
    // SAFETY: programs for x86-64 Linux do not use gs.
    unsafe { syscall6(ARCH_PRCTL, ARCH_SET_GS, area.addr(), 0, 0, 0, 0) == 0 }
}

/// The area of this thread.
///
/// # Safety
/// It is attached.
pub(crate) unsafe fn area() -> *mut Area {
    let area;
    // SAFETY: the first word of an area is its address.
    unsafe { asm!("mov {}, gs:[0]", out(reg) area, options(nostack, readonly, preserves_flags)) };
    area
}

/// The parts of the vector state that this machine has. `None` without `xsave`.
pub(crate) fn vector_mask() -> Option<u32> {
    /// The system uses xsave.
    const OSXSAVE: u32 = 1 << 27;
    if core::arch::x86_64::__cpuid(1).ecx & OSXSAVE == 0 {
        return None;
    }
    let low: u32;
    // SAFETY: the processor has the instruction, as was just asked.
    unsafe { asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") _, options(nomem, nostack, preserves_flags)) };
    let optimized = core::arch::x86_64::__cpuid_count(0xD, 1).eax & 1 != 0;
    Some(low & VECTOR_STATE | if optimized { OPTIMIZED } else { 0 })
}
