//! Dynamic binary instrumentation for x86-64 within the process itself: the part that
//! `JiTI` plays in `RecPlay` (Ronsse, Christiaens & De Bosschere 2003).
//!
//! The program's code is never run where it stands. It is decoded block by block,
//! copied into a code cache with whatever a [`Tool`] inserts, and run there; blocks
//! jump to each other. Nothing of that can be seen by the program: its stack holds its
//! own return addresses, its registers, flags and red zone are its own, and addresses
//! relative to rip mean what they meant.
//!
//! - [`Engine`]: the cache and what is in it, one for a process. Its memory is the
//!   caller's.
//! - [`Thread`]: a thread that runs in the cache. gs points to its area.
//! - [`Host`]: what the translator asks of the process.
//! - [`Tool`]: what is inserted where.
//!
//! The crate has no `std`, calls no libc and keeps its data in the caller's memory.
//! Its decoder, iced, builds tables by the global allocator when an engine is made.
//!
//! How a branch is translated stands in `translate.rs` and `stubs.rs`, how indirect
//! ones find their target in `lookup.rs`, how signals see the program in `state.rs`.
#![cfg_attr(not(test), no_std)]

mod area;
mod arena;
mod assembler;
mod cache;
mod cold;
mod crossing;
mod decode;
mod engine;
mod error;
mod host;
mod inserter;
mod layout;
mod liveness;
mod lookup;
mod memory;
mod place;
mod process;
mod ranges;
mod register;
mod relocate;
mod routine;
mod state;
mod stubs;
mod thread;
mod tool;
mod translate;
mod visit;
mod writer;

pub use area::{AREA_BYTES, Context, STACK_BYTES, TOOL_WORDS, tool_offset, tool_word};
pub use assembler::{Assembler, Condition, Forward, Operand};
pub use cache::{Memory, data_bytes};
pub use cold::Aside;
pub use decode::Flow;
pub use engine::{Engine, Usage};
pub use error::{Error, Refusal};
pub use host::{After, Host, read_own_memory};
pub use inserter::Inserter;
pub use memory::{Elsewhere, Reserve, ToolMemory};
pub use place::Place;
pub use process::native;
pub use register::{Gpr, GprSet};
pub use routine::RoutineWriter;
pub use thread::Thread;
pub use tool::{Access, AccessKind, Note, Plain, Site, Survey, Tool, Treatment};
pub use visit::Visit;
