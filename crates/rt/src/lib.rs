//! The runtime inside the recorded process: registry of threads, the gate that
//! every front calls, the chunk writer, the replay scheduler.
//!
//! A guest in somebody's program. It never calls a function it stands in front
//! of, never allocates from the program's heap, never takes a lock the program
//! can hold, never unwinds, never changes `errno` or a signal mask for good.
//!
//! Reading order: [`record`] (the gate while recording, the hot path),
//! [`replay`] (the gate while replaying), then [`thread`], [`writer`], [`chunk`].
#![cfg_attr(not(test), no_std)]
// Every pointer that crosses these functions points into memory of the runtime
// or of an object under the gate; the essays at the heads of the files say why.
#![allow(clippy::missing_panics_doc)]

extern crate alloc;

pub mod allocator;
pub mod arena;
pub mod chunk;
pub mod deferred;
pub mod environment;
pub mod handed;
pub mod held;
pub mod inputs;
pub mod limit;
pub mod link;
pub mod object;
pub mod once;
pub mod outside;
pub mod path;
pub mod process;
pub mod races;
pub mod record;
pub mod replay;
pub mod report;
pub mod rounds;
pub mod runtime;
pub mod stranger;
pub mod thread;
pub mod translation;
pub mod writer;

pub use runtime::{Mode, mode};
