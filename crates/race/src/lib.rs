//! Data races by happened-before: what `RecPlay` (Ronsse, Christiaens & De Bosschere
//! 2003) finds during a replay.
//!
//! A thread's execution is cut into *segments* at its synchronisation operations.
//! Two segments are unordered when no chain of operations leads from one to the
//! other; they race when both touch a byte and one of them writes it.
//!
//! [`Clocks`] follows the operations: each thread and each object has a vector
//! clock, and each segment is named by its thread and its number, an [`Epoch`].
//! [`History`] holds a finished segment, a [`Clock`] with its [`Line`]s, against
//! what each line of memory remembers of earlier ones. It is byte-exact and
//! forgets only what cannot be the last witness of a race, so at least one race is
//! reported for every racing byte of the execution. [`Detail`] does the same for
//! single accesses of the few bytes that are known to race, and says which two
//! accesses they were. [`Frontier`] tells the races that nothing can have
//! influenced from those behind them. [`recplay`] finds races as the paper does;
//! the tests hold the two against each other.
//!
//! Apart from the runtime because it knows of no memory, no thread and no lock but
//! those that it is told of. Whoever calls has a lock around [`Clocks`]; threads use a
//! [`History`] at the same time.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod clock;
mod clocks;
mod detail;
mod epoch;
mod finding;
mod frontier;
pub mod history;
mod lines;
mod mix;
pub mod recplay;
mod variables;

pub use clock::{Clock, Floor};
pub use clocks::{Clocks, Refusal};
pub use detail::{Access, Detail, Pair, Told, Touch};
pub use epoch::{Epoch, THREADS_MAX};
pub use finding::{Kind, Race};
pub use frontier::{Frontier, Order, Standing};
pub use history::{History, Often, Open, Reads};
pub use lines::{Line, pieces, ranges};
pub use variables::Variables;

#[cfg(test)]
mod tests;
