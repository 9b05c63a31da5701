//! The record/replay state machine, pure: no unsafe, no I/O, no time.
//!
//! ROLT (Levrouw, Audenaert, Van Campenhout 1994; Ronsse & Levrouw 1996) puts a
//! Lamport clock on every thread and every object. An event of thread `t` on
//! object `o` takes the timestamp
//!
//! ```text
//! LC(t) = LC(o) = max(LC(t), LC(o)) + 1
//! ```
//!
//! Almost every increment of `LC(t)` is exactly one and need not be stored: a
//! trace keeps only the events at which the thread's clock jumped by more, as
//! pairs (steps since the last pair, extra jump). A replay that runs an event
//! with timestamp `x` only when every event with a smaller timestamp has run
//! re-creates the same order at every object.
//!
//! What happened before what is another matter: [`vector`] clocks tell it exactly, and
//! [`matrix`] clocks what of it everybody knows. Both work on memory of their caller's.
//!
//! This crate is apart from the runtime so that the arithmetic can be tested
//! against a naive oracle, and from the trace so that neither knows the other's
//! representation.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod clock;
pub mod hash;
pub mod kind;
pub mod matrix;
pub mod vector;

pub use clock::{Stamp, stamp, stamp_two};
pub use hash::{BytesCheck, CheckHash};
pub use kind::{Family, Kind};
pub use matrix::Matrix;
