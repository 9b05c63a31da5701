//! Raw system calls, futex locks, the thread-local slot, assembly trampolines
//! and symbol lookup: what the runtime needs from below, without libc.
//!
//! This crate is the only home of inline assembly besides the translator. It
//! knows nothing of recording.
#![cfg_attr(not(any(test, loom)), no_std)]

pub mod barrier;
pub mod lock;
pub mod primitive;
pub mod rounds;
pub mod wake;

#[cfg(not(loom))]
pub mod aside;
#[cfg(not(loom))]
pub mod atomics;
#[cfg(not(loom))]
mod bytes;
#[cfg(not(loom))]
pub mod caught;
#[cfg(not(loom))]
pub mod decode;
#[cfg(not(loom))]
pub mod dispatch;
#[cfg(not(loom))]
pub mod elf;
#[cfg(not(loom))]
pub mod frames;
#[cfg(not(loom))]
pub mod gate;
#[cfg(not(loom))]
pub mod handed;
#[cfg(not(loom))]
pub mod image;
pub mod jump;
#[cfg(not(loom))]
pub mod keep;
#[cfg(not(loom))]
pub mod lookup;
#[cfg(not(loom))]
pub mod maps;
#[cfg(not(loom))]
pub mod outside;
#[cfg(not(loom))]
pub mod own_data;
#[cfg(not(loom))]
pub mod passage;
#[cfg(not(loom))]
pub mod proc;
#[cfg(not(loom))]
pub mod processor;
#[cfg(not(loom))]
pub(crate) mod room;
#[cfg(not(loom))]
pub mod saved;
#[cfg(not(loom))]
pub mod signal;
#[cfg(not(loom))]
pub mod sites;
#[cfg(not(loom))]
pub mod slice;
#[cfg(not(loom))]
pub mod start;
#[cfg(not(loom))]
mod sweep;
#[cfg(not(loom))]
pub mod syscall;
#[cfg(not(loom))]
pub mod tls;
#[cfg(not(loom))]
pub mod trampoline;
#[cfg(not(loom))]
pub mod unwinding;
#[cfg(not(loom))]
pub mod valgrind;
#[cfg(not(loom))]
pub mod vdso;
#[cfg(not(loom))]
mod vectors;
