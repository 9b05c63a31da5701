//! The border between translated code and the kernel, for a process that is
//! translated as a whole.
//!
//! Apart from the crossing between the cache and our own code, because a process that
//! only calls single functions translated has none of this.
//!
//! Where a signal finds a thread here decides what the program's state is
//! ([`whereabouts`]): from the moment the stack pointer is the program's, the area's
//! context is what the program has, until the cache is reached; around a system call
//! the registers are.

use crate::area::{
    AFTER, ARRIVED, Area, CONTEXT, DIE, ENDING, RESUME, STACK, TAKE_SIGNAL, TARGET, TID, VECTOR_MASK, VECTORS,
};
use core::arch::global_asm;
use relive_sys::signal::is_own_code;

global_asm!(
    ".pushsection .text.relive_dbi,\"ax\",@progbits",
    // Goes on behind the caller, translated. rdi: what finds the place in the cache.
    ".balign 16",
    ".globl relive_dbi_begin",
    ".hidden relive_dbi_begin",
    "relive_dbi_begin:",
    "mov gs:[{context} + 24], rbx",
    "mov gs:[{context} + 40], rbp",
    "mov gs:[{context} + 96], r12",
    "mov gs:[{context} + 104], r13",
    "mov gs:[{context} + 112], r14",
    "mov gs:[{context} + 120], r15",
    "lea rax, [rsp + 8]",
    "mov gs:[{context} + 32], rax",
    "mov rax, [rsp]",
    "mov gs:[{context} + 136], rax",
    "mov qword ptr gs:[{context} + 128], 0x202",
    "mov rax, rdi",
    "mov rsp, gs:[{stack}]",
    "mov rdi, gs:[0]",
    "call rax",
    "jmp relive_dbi_load",
    // A call whose number means nothing to the kernel: the translator takes it for a call of the function at rdi with
    // rsi. As for any function, nobody needs vector registers behind it.
    ".balign 16",
    ".globl relive_dbi_native",
    ".hidden relive_dbi_native",
    "relive_dbi_native:",
    // The detector's callers are looked for from here.
    ".cfi_startproc",
    "mov eax, 0x72656C76",
    ".globl relive_dbi_native_call",
    ".hidden relive_dbi_native_call",
    "relive_dbi_native_call:",
    "syscall",
    "test eax, eax",
    "jnz 5f",
    "ret",
    ".cfi_endproc",
    // The kernel had it: the thread left the cache for code that can't be translated. Its area has all that is needed,
    // and from here on it is translated again.
    "5:",
    "lea rax, [rip + 6f]",
    "mov gs:[{target}], rax",
    "jmp relive_dbi_leave_plainly",
    "6:",
    "jmp qword ptr gs:[{resume}]",
    // Where that call leaves the cache, with the area's target behind it: as relive_dbi_leave, without the vector
    // registers, and without the engine, whose lock threads would meet at.
    ".balign 16",
    ".globl relive_dbi_leave_plainly",
    ".hidden relive_dbi_leave_plainly",
    "relive_dbi_leave_plainly:",
    "mov gs:[{context} + 32], rsp",
    "mov rsp, gs:[{stack}]",
    "mov qword ptr gs:[{context} + 128], 0x202",
    "mov gs:[{context} + 24], rbx",
    "mov gs:[{context} + 40], rbp",
    "mov gs:[{context} + 48], rsi",
    "mov gs:[{context} + 56], rdi",
    "mov gs:[{context} + 96], r12",
    "mov gs:[{context} + 104], r13",
    "mov gs:[{context} + 112], r14",
    "mov gs:[{context} + 120], r15",
    "lea rax, [rip + relive_dbi_native_call]",
    "mov gs:[{context} + 136], rax",
    "mov rax, rdi",
    "mov rdi, rsi",
    "call rax",
    "mov qword ptr gs:[{context}], 0",
    "lea rax, [rip + relive_dbi_native_call + 2]",
    "mov gs:[{context} + 136], rax",
    "jmp relive_dbi_load_unflagged",
    // A system call with the program's registers.
    ".balign 16",
    ".globl relive_dbi_kernel",
    ".hidden relive_dbi_kernel",
    "relive_dbi_kernel:",
    "syscall",
    ".globl relive_dbi_called",
    ".hidden relive_dbi_called",
    "relive_dbi_called:",
    "jmp qword ptr gs:[{after}]",
    // What the kernel calls for each signal: number, information, context.
    ".balign 16",
    ".globl relive_dbi_signal",
    ".hidden relive_dbi_signal",
    "relive_dbi_signal:",
    // The kernel leaves the program's alignment checks on.
    "push 0x202",
    "popfq",
    "push rdi",
    "push rsi",
    "push rdx",
    "mov rcx, gs:[0]",
    "call qword ptr gs:[{arrived}]",
    "pop rdx",
    "pop rsi",
    "pop rdi",
    "test al, al",
    "jz 2f",
    "mov rcx, rsp",
    "mov rsp, gs:[{stack}]",
    "mov r8, gs:[0]",
    "call qword ptr gs:[{take_signal}]",
    "jmp relive_dbi_load",
    "2:",
    "lea rdi, [rsp + 8]",
    // Ends a handler whose context is at rdi.
    ".globl relive_dbi_return_from_signal",
    ".hidden relive_dbi_return_from_signal",
    "relive_dbi_return_from_signal:",
    "mov rsp, rdi",
    "mov eax, 15",
    "syscall",
    "ud2",
    // The same where the program leaves the signal to the kernel, which would end the process by it.
    ".balign 16",
    ".globl relive_dbi_fatal",
    ".hidden relive_dbi_fatal",
    "relive_dbi_fatal:",
    "push 0x202",
    "popfq",
    "push rdi",
    "push rsi",
    "push rdx",
    "mov rcx, gs:[0]",
    "call qword ptr gs:[{arrived}]",
    "pop rdx",
    "pop rsi",
    "pop rdi",
    "test al, al",
    "jz 4f",
    "mov rsp, gs:[{stack}]",
    "mov rcx, gs:[0]",
    "call qword ptr gs:[{die}]",
    "ud2",
    "4:",
    "lea rdi, [rsp + 8]",
    "jmp relive_dbi_return_from_signal",
    // rdi: number, rsi: five arguments, rdx: the child's area.
    ".balign 16",
    ".globl relive_dbi_clone",
    ".hidden relive_dbi_clone",
    "relive_dbi_clone:",
    "push r12",
    "mov r12, rdx",
    "mov rax, rdi",
    "mov r11, rsi",
    "mov rdi, [r11]",
    "mov rsi, [r11 + 8]",
    "mov rdx, [r11 + 16]",
    "mov r10, [r11 + 24]",
    "mov r8, [r11 + 32]",
    "syscall",
    "test rax, rax",
    "jz 3f",
    "pop r12",
    "ret",
    // The child has no stack of its own yet, and its parent's gs.
    "3:",
    "mov edi, 0x1001",
    "mov rsi, r12",
    "mov eax, 158",
    "syscall",
    "mov eax, 186",
    "syscall",
    "mov gs:[{tid}], eax",
    "mov rsp, gs:[{stack}]",
    "mov eax, gs:[{mask}]",
    "xor edx, edx",
    "xrstor64 gs:[{vectors}]",
    "jmp relive_dbi_load",
    // rdi: status. The area may be another thread's as soon as the kernel forgets this one.
    ".balign 16",
    ".globl relive_dbi_exit",
    ".hidden relive_dbi_exit",
    "relive_dbi_exit:",
    "mov dword ptr gs:[{ending}], 1",
    "mov eax, 60",
    "syscall",
    "ud2",
    ".popsection",
    context = const CONTEXT,
    stack = const STACK,
    after = const AFTER,
    target = const TARGET,
    resume = const RESUME,
    arrived = const ARRIVED,
    take_signal = const TAKE_SIGNAL,
    die = const DIE,
    tid = const TID,
    mask = const VECTOR_MASK,
    vectors = const VECTORS,
    ending = const ENDING,
);

unsafe extern "C" {
    fn relive_dbi_begin(found: unsafe extern "C" fn(*mut Area));
    fn relive_dbi_native(function: extern "C" fn(usize), data: usize) -> isize;
    fn relive_dbi_native_call();
    fn relive_dbi_leave_plainly();
    fn relive_dbi_kernel();
    fn relive_dbi_called();
    fn relive_dbi_signal();
    fn relive_dbi_fatal();
    fn relive_dbi_return_from_signal(context: u64) -> !;
    fn relive_dbi_clone(number: usize, arguments: *const usize, child: *mut Area) -> isize;
    fn relive_dbi_exit(status: usize) -> !;
    fn relive_dbi_go() -> !;
    fn relive_dbi_open();
    fn relive_dbi_open_end();
}

/// Where a signal found a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    /// On its way to the cache: the area's context is what the program has.
    Going,
    /// Before a system call of the program, or one that the kernel will make again.
    Calling,
    /// Behind it: its result is in the registers.
    Called,
    /// In the translator.
    Inside,
    /// In the cache, or in code that runs natively.
    Elsewhere,
}

/// What `ip` says of a thread.
pub(crate) fn whereabouts(ip: u64) -> Where {
    let [open, end] = [relive_dbi_open, relive_dbi_open_end].map(address);
    if ip == go() as u64 || (open..end).contains(&ip) {
        Where::Going
    } else if ip == kernel() {
        Where::Calling
    } else if ip == address(relive_dbi_called) {
        Where::Called
    } else if is_own_code(ip as usize) {
        Where::Inside
    } else {
        Where::Elsewhere
    }
}

fn address(label: unsafe extern "C" fn()) -> u64 {
    label as *const () as u64
}

/// Asks the translator to call a function; 0 once it did.
///
/// # Safety
/// As for calling it.
pub(crate) unsafe fn native(function: extern "C" fn(usize), data: usize) -> isize {
    // SAFETY: the caller's promise; the kernel knows no such call.
    unsafe { relive_dbi_native(function, data) }
}

/// The instruction by which [`native`] asks.
pub(crate) fn native_call() -> u64 {
    address(relive_dbi_native_call)
}

/// Where that instruction leaves the cache.
pub(crate) fn leave_plainly() -> usize {
    address(relive_dbi_leave_plainly) as usize
}

/// Where a system call is made with the program's registers; it goes on at the area's `after`.
pub(crate) fn kernel() -> u64 {
    address(relive_dbi_kernel)
}

/// What the kernel is told to call for a signal.
pub(crate) fn signal() -> usize {
    address(relive_dbi_signal) as usize
}

/// What the kernel is told to call for a signal that ends the process.
pub(crate) fn fatal() -> usize {
    address(relive_dbi_fatal) as usize
}

/// Where a thread goes on with its area's context and target, if nothing else of its state is ours.
pub(crate) fn go() -> usize {
    relive_dbi_go as *const () as usize
}

/// Lets `found` say where the caller's code is in the cache, and returns there.
///
/// # Safety
/// The thread's area is attached and complete.
pub(crate) unsafe fn begin(found: unsafe extern "C" fn(*mut Area)) {
    // SAFETY: the caller's promise.
    unsafe { relive_dbi_begin(found) }
}

/// Ends a handler whose context is there.
///
/// # Safety
/// It is the context of a signal's frame.
pub(crate) unsafe fn return_from_signal(context: u64) -> ! {
    // SAFETY: the caller's promise.
    unsafe { relive_dbi_return_from_signal(context) }
}

/// Makes a `clone` whose child goes on by its area. Returns in the parent.
///
/// # Safety
/// As for the call, which shares memory; the area is complete and nobody else's.
pub(crate) unsafe fn clone(number: usize, arguments: &[usize; 5], child: *mut Area) -> isize {
    // SAFETY: the caller's promise.
    unsafe { relive_dbi_clone(number, arguments.as_ptr(), child) }
}

/// Ends the thread.
///
/// # Safety
/// Nothing of the thread is needed any more.
pub(crate) unsafe fn exit(status: usize) -> ! {
    // SAFETY: the caller's promise.
    unsafe { relive_dbi_exit(status) }
}
