//! Instructions that change memory indivisibly: those with a lock prefix, and `xchg`.
//! Where a recording orders them, each stands between two calls of ours.
//!
//! As with what reads the outside ([`crate::outside`]), a jump leads from the instruction to a
//! piece of code near by, in which it runs itself:
//!
//! ```text
//! f0 0f c1 07   lock xadd [rdi], eax   e9 …  jmp piece   piece:  call enter, beyond the red zone
//! 85 c0         test eax, eax          c0                        lock xadd [rdi], eax
//!                                                                call leave
//!                                                                test eax, eax
//!                                                                jmp back
//! ```
//!
//! Both calls keep all registers and flags. Most such instructions have the five bytes of a
//! jump by themselves. Where one has not, and what stands around it can't be moved, it
//! becomes `ud2`: the handler of that signal sends the thread to the piece ([`piece_of`]).
//!
//! A piece belongs to its instruction: signals find a thread there as in our own code,
//! because between the calls the instruction is ordered, and not yet run.

mod access;
mod held;
mod packed;
mod pieces;
mod sites;
mod spins;
#[cfg(test)]
mod tests;

pub use crate::saved::Saved;
pub use access::{Access, Operand};
pub use held::Held;
pub use packed::{packed, unpack};
pub use pieces::{Changed, change, code, copy_of, forget, is_ordered, operand, original, piece_of, place, spins};
pub use sites::{Site, at, find, join, settle};
