//! Raw system calls, futex locks, the thread-local slot, assembly trampolines
//! and symbol lookup: what the runtime needs from below, without libc.
//!
//! This crate is the only home of inline assembly besides the translator. It
//! knows nothing of recording.
#![cfg_attr(not(any(test, loom)), no_std)]

pub mod lock;
pub mod primitive;
pub mod wake;

#[cfg(not(loom))]
pub mod dispatch;
#[cfg(not(loom))]
pub mod elf;
#[cfg(not(loom))]
pub mod jump;
#[cfg(not(loom))]
pub mod lookup;
#[cfg(not(loom))]
pub mod maps;
#[cfg(not(loom))]
pub mod proc;
#[cfg(not(loom))]
pub mod signal;
#[cfg(not(loom))]
pub mod sites;
#[cfg(not(loom))]
pub mod start;
#[cfg(not(loom))]
pub mod syscall;
#[cfg(not(loom))]
pub mod tls;
#[cfg(not(loom))]
pub mod trampoline;
#[cfg(not(loom))]
pub mod vdso;
