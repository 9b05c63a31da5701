//! The starter: maps a program and its loader, makes a stack and moves the
//! kernel's image of functions, all at addresses of our choice, and lets the
//! loader run.
//!
//! The kernel's own choices depend on chance, on limits and on the length of the
//! environment, and not everywhere may chance be switched off. A recording and its
//! replays need the same addresses. Until the preloaded library takes over, the
//! loader's calls come to [`calls`], so that its mappings lie where they did, too.
#![no_std]
#![no_main]

mod arguments;
mod calls;
mod files;
mod kept;
mod kernel;
mod leave;
mod load;
mod outside;
mod scratch;
mod script;
mod stack;

use core::arch::global_asm;
use core::ffi::CStr;
use relive_sys::{dispatch, syscall};

relive_sys::memory_functions!("");

// The stack that the starter runs on: the kernel's is taken down under it.
global_asm!(
    ".section .bss",
    ".balign 16",
    "relive_start_stack:",
    ".zero 65536",
    "relive_start_stack_end:",
    ".text",
    ".globl _start",
    "_start:",
    "mov rdi, rsp",
    "lea rsp, [rip + relive_start_stack_end]",
    "xor ebp, ebp",
    "call {begin}",
    "ud2",
    begin = sym begin,
);

/// # Safety
/// `passed` is what the kernel laid on the stack.
unsafe extern "C" fn begin(passed: *const usize) -> ! {
    // SAFETY: the caller's promise; each step gets what the one before it made, and nothing else runs.
    unsafe {
        let mut scratch = scratch::Scratch::new();
        let passed = arguments::copy(passed, &mut scratch);
        let mut passed = arguments::Passed::read(passed);
        kernel::take_down(&mut passed);
        let (handover, told) = leave::lay(&passed);
        handover.places = outside::start(&passed);
        let program = script::follow(&mut passed, &mut scratch, handover);
        let stack = stack::build(&passed, &program, handover, &told);
        kernel::tell(&passed, &program, &stack);
        calls::start();
        scratch::Scratch::give_back();
        stack.enter(program.loader.entry, passed.debugger)
    }
}

/// Ends with a message.
fn fail(path: &CStr, why: &str, error: isize) -> ! {
    /// As a shell says that a program can't be executed.
    const NOT_EXECUTABLE: u32 = 126;
    const STDERR: u32 = 2;
    let mut digits = [0u8; 5];
    let mut left = error.unsigned_abs();
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
    let zeros = digits.iter().take_while(|&&digit| digit == b'0').count().min(digits.len() - 1);
    for part in [b"relive: start ", path.to_bytes(), b": ", why.as_bytes(), b" (error ", &digits[zeros..], b")\n"] {
        syscall::write(STDERR, part);
    }
    dispatch::disarm();
    syscall::exit_group(NOT_EXECUTABLE)
}

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    syscall::write(2, b"relive: broken invariant in the starter\n");
    syscall::exit_group(125)
}
