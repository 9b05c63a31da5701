//! What the compiler calls to copy, fill and compare memory: there is no libc.

use core::arch::asm;

/// # Safety
/// As for C's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("rep movsb", inout("rdi") to => _, inout("rsi") from => _, inout("rcx") count => _,
            options(nostack, preserves_flags));
    }
    to
}

/// # Safety
/// As for C's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, count: usize) -> *mut u8 {
    if to.addr().wrapping_sub(from.addr()) >= count {
        // SAFETY: the caller's promise; a copy in ascending order reads each byte before it is overwritten.
        return unsafe { memcpy(to, from, count) };
    }
    // SAFETY: the caller's promise; in descending order here.
    unsafe {
        asm!("std", "rep movsb", "cld", inout("rdi") to.wrapping_add(count).wrapping_sub(1) => _,
            inout("rsi") from.wrapping_add(count).wrapping_sub(1) => _, inout("rcx") count => _, options(nostack));
    }
    to
}

/// # Safety
/// As for C's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, value: i32, count: usize) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("rep stosb", inout("rdi") to => _, in("al") value as u8, inout("rcx") count => _,
            options(nostack, preserves_flags));
    }
    to
}

/// # Safety
/// As for C's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(one: *const u8, other: *const u8, count: usize) -> i32 {
    let mut at = 0;
    while at < count {
        // SAFETY: the caller's promise. Volatile, so that this does not become a call of itself.
        let (a, b) = unsafe { (one.add(at).read_volatile(), other.add(at).read_volatile()) };
        if a != b {
            return i32::from(a) - i32::from(b);
        }
        at += 1;
    }
    0
}

/// # Safety
/// As for C's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(one: *const u8, other: *const u8, count: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { memcmp(one, other, count) }
}

/// # Safety
/// As for C's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut length = 0;
    // SAFETY: the caller's promise. Volatile as above.
    while unsafe { text.add(length).read_volatile() } != 0 {
        length += 1;
    }
    length
}
