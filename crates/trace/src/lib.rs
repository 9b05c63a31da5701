//! The trace: what recording leaves behind and replay lives on.
//!
//! - [`layout`]: the data file, chunk by chunk.
//! - [`record`]: the byte code inside a chunk: encoder and decoder.
//! - [`control`]: the memory that launcher and recorded processes share.
//! - [`handed`]: what a process that has become another user asks the launcher for.
//! - [`opened`]: which files the recorded images were started from.
//! - [`pattern`]: which variables are kept out of the trace.
//! - [`plan`]: what the launcher lays ready for the runtime of a replay.
//!
//! Encoder and decoder need neither std nor an allocator, because they run
//! inside the recorded program. With the feature `std` come the parts that only
//! the launcher and the reading commands use:
//!
//! - [`recording`]: a whole trace, verified; [`reader`] reads one data file of it,
//!   [`stream`] turns a thread's bytes into events.
//! - [`manifest`]: what was recorded, where, and how it ended.
//! - [`derived`]: the per-object order that a first replay learns.
//! - [`packed`]: a trace and its programs in one file.
//! - [`plan_builder`]: from a recording to the plan of a replay.
//! - [`error`]: why a trace can't be read.
#![cfg_attr(not(any(test, feature = "std")), no_std)]
#![forbid(unsafe_code)]

pub mod accesses;
#[cfg(feature = "std")]
pub mod bytes;
pub mod control;
pub mod declared;
#[cfg(feature = "std")]
pub mod derived;
#[cfg(feature = "std")]
pub mod error;
pub mod handed;
pub mod kept;
pub mod known;
pub mod layout;
#[cfg(feature = "std")]
pub mod manifest;
pub mod opened;
#[cfg(feature = "std")]
pub mod packed;
pub mod pattern;
pub mod plan;
#[cfg(feature = "std")]
pub mod plan_builder;
pub mod races;
#[cfg(feature = "std")]
pub mod reader;
pub mod record;
#[cfg(feature = "std")]
pub mod recording;
pub mod stand;
#[cfg(feature = "std")]
pub mod stream;
