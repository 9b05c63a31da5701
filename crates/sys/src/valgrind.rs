//! Whether this process's instructions are carried out by Valgrind.
//!
//! Apart because it asks nobody that is there: Valgrind knows a sequence of
//! instructions that do nothing on a processor (its manual, chapter 3, "The client
//! request mechanism").

use core::arch::asm;

/// `RUNNING_ON_VALGRIND`
const ASKS_WHETHER: u64 = 0x1001;

/// Whether it is so.
pub fn is_emulating() -> bool {
    let request = [ASKS_WHETHER, 0, 0, 0, 0, 0];
    let mut answer = 0u64;
    // SAFETY: on a processor rdi turns by 128 bits and is what it was, and rbx is exchanged with itself; Valgrind reads the
    // six words at rax and writes rdx.
    unsafe {
        asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") request.as_ptr(),
            inout("rdx") answer,
            in("rdi") 0,
            options(nostack),
        );
    }
    answer != 0
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_processor_is_not_valgrind() {
        assert!(!super::is_emulating());
    }
}
