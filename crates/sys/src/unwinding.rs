//! What the standard `alloc` wants of a library that never unwinds.
//!
//! Apart because `alloc` comes compiled for programs that do: its tables name a
//! personality routine, which nobody ever calls here.

/// Defines that routine and what goes with it, for this library alone: hidden, they take nobody's place.
#[macro_export]
macro_rules! never_unwinds {
    () => {
        ::core::arch::global_asm!(
            ".globl rust_eh_personality",
            ".hidden rust_eh_personality",
            ".type rust_eh_personality,@function",
            "rust_eh_personality:",
            "ud2",
            ".size rust_eh_personality, . - rust_eh_personality",
            ".globl _Unwind_Resume",
            ".hidden _Unwind_Resume",
            ".type _Unwind_Resume,@function",
            "_Unwind_Resume:",
            "ud2",
            ".size _Unwind_Resume, . - _Unwind_Resume",
        );
    };
}
