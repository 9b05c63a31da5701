//! Where a `longjmp` leads: glibc's `jmp_buf`.
//!
//! Apart because it knows a layout of x86-64 glibc and how it hides pointers.

use core::arch::asm;

/// Word of a `jmp_buf` with the stack pointer (glibc, `jmpbuf-offsets.h`).
const STACK: usize = 6;
/// How far glibc rotates what it hides.
const ROTATION: u32 = 17;

/// The stack pointer that a jump by this buffer sets.
///
/// # Safety
/// `buffer` must be a `jmp_buf` of glibc that `setjmp` has filled.
pub unsafe fn stack_pointer(buffer: *const u64) -> usize {
    let guard: u64;
    // SAFETY: the thread control block's `pointer_guard`, part of glibc's ABI; the caller's promise for the buffer.
    unsafe {
        asm!("mov {}, fs:[0x30]", out(reg) guard, options(nostack, readonly, preserves_flags));
        (buffer.add(STACK).read().rotate_right(ROTATION) ^ guard) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::{ROTATION, STACK, stack_pointer};

    #[test]
    fn a_hidden_pointer_is_found() {
        // What hides to nothing but the guard: zero rotated is zero.
        let mut buffer = [0u64; 8];
        // SAFETY: a buffer of the right size.
        let guard = unsafe { stack_pointer(buffer.as_ptr()) } as u64;
        buffer[STACK] = (0x7fff_1234_5678 ^ guard).rotate_left(ROTATION);
        // SAFETY: as above.
        assert_eq!(unsafe { stack_pointer(buffer.as_ptr()) }, 0x7fff_1234_5678);
    }
}
