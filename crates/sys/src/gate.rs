//! `int 0x80`, by which programs of 32 bits make system calls, and others can.
//!
//! Apart because these calls have numbers and arguments of their own.

use core::arch::asm;

/// Makes such a call for a program that does.
///
/// # Safety
/// As for the call itself, by the rules of 32 bits.
pub unsafe fn call(number: u32, arguments: [u32; 6]) -> i32 {
    let [first, second, third, fourth, fifth, sixth] = arguments.map(u64::from);
    let result: u64;
    // SAFETY: the caller's promise; two registers that the compiler keeps for itself are put back.
    unsafe {
        asm!(
            "push rbp",
            "push rbx",
            "mov rbx, {first}",
            "mov rbp, {sixth}",
            "int 0x80",
            "pop rbx",
            "pop rbp",
            first = in(reg) first,
            sixth = in(reg) sixth,
            inlateout("rax") u64::from(number) => result,
            in("rcx") second,
            in("rdx") third,
            in("rsi") fourth,
            in("rdi") fifth,
        );
    }
    result as i32
}
