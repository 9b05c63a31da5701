//! What the compiler calls to copy, fill and compare memory, for images that have
//! no libc and for those that must not call the program's.
//!
//! The preloaded library is such a one: a signal that arrives within libc's `memcpy`
//! would find the thread outside of our code, and take what we are about to do for
//! what the program does: its records would stand in the middle of ours. And a replay
//! may watch an instruction of libc's by a trap, in the midst of which we copy.
//!
//! In assembly and hidden, so that nobody else gets these for libc's.

/// A function that nobody sees from outside.
#[doc(hidden)]
#[macro_export]
macro_rules! hidden_function {
    ($name:expr, $($line:expr),* $(,)?) => {
        ::core::arch::global_asm!(
            concat!(".globl ", $name),
            concat!(".hidden ", $name),
            concat!(".type ", $name, ",@function"),
            concat!($name, ":"),
            ".cfi_startproc",
            $($line,)*
            ".cfi_endproc",
            concat!(".size ", $name, ", . - ", $name),
        );
    };
}

/// Defines `memcpy`, `memmove`, `memset`, `memcmp`, `bcmp` and `strlen` for the image that this stands in, as C has
/// them. The names begin with `prefix`: with none they are those that the compiler calls.
#[macro_export]
macro_rules! memory_functions {
    ($prefix:literal) => {
        // The first and the last bytes may be the same ones.
        $crate::hidden_function!(
            concat!($prefix, "memcpy"),
            "mov rax, rdi",
            "cmp rdx, 16",
            "jae 3f",
            "cmp rdx, 8",
            "jb 1f",
            "mov rcx, [rsi]",
            "mov r8, [rsi + rdx - 8]",
            "mov [rdi], rcx",
            "mov [rdi + rdx - 8], r8",
            "ret",
            "1:",
            "cmp rdx, 4",
            "jb 2f",
            "mov ecx, [rsi]",
            "mov r8d, [rsi + rdx - 4]",
            "mov [rdi], ecx",
            "mov [rdi + rdx - 4], r8d",
            "ret",
            "2:",
            "test rdx, rdx",
            "jz 6f",
            "mov r10, rdx",
            "shr r10",
            "movzx ecx, byte ptr [rsi]",
            "movzx r8d, byte ptr [rsi + rdx - 1]",
            "movzx r9d, byte ptr [rsi + r10]",
            "mov [rdi], cl",
            "mov [rdi + r10], r9b",
            "mov [rdi + rdx - 1], r8b",
            "6:",
            "ret",
            "3:",
            "cmp rdx, 1024",
            "ja 5f",
            "movups xmm1, [rsi + rdx - 16]",
            "lea r8, [rdi + rdx - 16]",
            "4:",
            "movups xmm0, [rsi]",
            "movups [rdi], xmm0",
            "add rsi, 16",
            "add rdi, 16",
            "cmp rdi, r8",
            "jb 4b",
            "movups [r8], xmm1",
            "ret",
            "5:",
            "mov rcx, rdx",
            "rep movsb",
            "ret",
        );

        // From the end on, where the places meet.
        $crate::hidden_function!(
            concat!($prefix, "memmove"),
            "mov rax, rdi",
            "sub rax, rsi",
            "cmp rax, rdx",
            concat!("jae ", $prefix, "memcpy"),
            "mov rax, rdi",
            "mov rcx, rdx",
            "lea rdi, [rdi + rdx - 1]",
            "lea rsi, [rsi + rdx - 1]",
            "std",
            "rep movsb",
            "cld",
            "ret",
        );

        $crate::hidden_function!(
            concat!($prefix, "memset"),
            "mov r8, rdi",
            "movzx eax, sil",
            "cmp rdx, 16",
            "jae 2f",
            "mov rcx, rdx",
            "rep stosb",
            "mov rax, r8",
            "ret",
            "2:",
            "cmp rdx, 1024",
            "ja 4f",
            "mov rcx, 0x0101010101010101",
            "imul rax, rcx",
            "movq xmm0, rax",
            "punpcklqdq xmm0, xmm0",
            "lea rcx, [rdi + rdx - 16]",
            "3:",
            "movups [rdi], xmm0",
            "add rdi, 16",
            "cmp rdi, rcx",
            "jb 3b",
            "movups [rcx], xmm0",
            "mov rax, r8",
            "ret",
            "4:",
            "mov rcx, rdx",
            "rep stosb",
            "mov rax, r8",
            "ret",
        );

        $crate::hidden_function!(
            concat!($prefix, "memcmp"),
            "1:",
            "cmp rdx, 8",
            "jb 2f",
            "mov rax, [rdi]",
            "cmp rax, [rsi]",
            "jne 2f",
            "add rdi, 8",
            "add rsi, 8",
            "sub rdx, 8",
            "jmp 1b",
            "2:",
            "test rdx, rdx",
            "jz 3f",
            "movzx eax, byte ptr [rdi]",
            "movzx ecx, byte ptr [rsi]",
            "inc rdi",
            "inc rsi",
            "dec rdx",
            "sub eax, ecx",
            "jz 2b",
            "ret",
            "3:",
            "xor eax, eax",
            "ret",
        );

        $crate::hidden_function!(concat!($prefix, "bcmp"), concat!("jmp ", $prefix, "memcmp"));

        $crate::hidden_function!(
            concat!($prefix, "strlen"),
            "mov rax, rdi",
            "1:",
            "cmp byte ptr [rax], 0",
            "je 2f",
            "inc rax",
            "jmp 1b",
            "2:",
            "sub rax, rdi",
            "ret",
        );
    };
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    crate::memory_functions!("tested_");

    unsafe extern "C" {
        fn tested_memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8;
        fn tested_memmove(to: *mut u8, from: *const u8, count: usize) -> *mut u8;
        fn tested_memset(to: *mut u8, value: i32, count: usize) -> *mut u8;
        fn tested_memcmp(one: *const u8, other: *const u8, count: usize) -> i32;
        fn tested_bcmp(one: *const u8, other: *const u8, count: usize) -> i32;
        fn tested_strlen(text: *const u8) -> usize;
    }

    const ROOM: usize = 3000;

    fn noise(seed: u8) -> Vec<u8> {
        (0..2 * ROOM).map(|at| (at as u8).wrapping_mul(7).wrapping_add((at >> 8) as u8).wrapping_add(seed)).collect()
    }

    /// Lengths of each of the ways, and those between them.
    fn length() -> impl Strategy<Value = usize> {
        prop_oneof![0..40usize, 120..140usize, 1000..1050usize, 0..ROOM]
    }

    proptest! {
        #[test]
        fn copies_what_it_should_and_nothing_else(from in 0..64usize, to in 0..64usize, count in length(), seed: u8) {
            let (source, mut target) = (noise(seed), noise(seed.wrapping_add(1)));
            let mut expected = target.clone();
            expected[to..to + count].copy_from_slice(&source[from..from + count]);
            let at = target[to..].as_mut_ptr();
            // SAFETY: both have room for it.
            prop_assert_eq!(unsafe { tested_memcpy(at, source[from..].as_ptr(), count) }, at);
            prop_assert_eq!(target, expected);
        }

        #[test]
        fn moves_where_the_places_meet(from in 0..200usize, to in 0..200usize, count in length(), seed: u8) {
            let mut memory = noise(seed);
            let mut expected = memory.clone();
            expected.copy_within(from..from + count, to);
            let (target, source) = (memory[to..].as_mut_ptr(), memory[from..].as_ptr());
            // SAFETY: both lie in it, and it has room.
            prop_assert_eq!(unsafe { tested_memmove(target, source, count) }, target);
            prop_assert_eq!(memory, expected);
        }

        #[test]
        fn fills(to in 0..64usize, count in length(), value: i32) {
            let mut memory = noise(3);
            let mut expected = memory.clone();
            expected[to..to + count].fill(value as u8);
            let at = memory[to..].as_mut_ptr();
            // SAFETY: it has room.
            prop_assert_eq!(unsafe { tested_memset(at, value, count) }, at);
            prop_assert_eq!(memory, expected);
        }

        #[test]
        fn compares(count in length(), differs in 0..2 * ROOM, by: u8) {
            let (one, mut other) = (noise(9), noise(9));
            other[differs] ^= by;
            let (a, b) = (&one[..count], &other[..count]);
            // SAFETY: both are so long.
            let [order, same] = unsafe {
                [tested_memcmp(a.as_ptr(), b.as_ptr(), count), tested_bcmp(a.as_ptr(), b.as_ptr(), count)]
            };
            prop_assert_eq!(order.cmp(&0), a.cmp(b));
            prop_assert_eq!(same == 0, a == b);
        }

        #[test]
        fn measures(count in length()) {
            let mut text = vec![b'x'; ROOM + 1];
            text[count] = 0;
            // SAFETY: it ends.
            prop_assert_eq!(unsafe { tested_strlen(text.as_ptr()) }, count);
        }
    }
}
