//! Runs code translated with the tool, and compares what was logged with what an
//! oracle says, or with what the instruction's manual says.
//!
//! One binary with a module for each subject, because all of them share `observe`. The
//! process and the random programs are those of the translator's own tests.

#[path = "../../../dbi/tests/translated/process.rs"]
#[allow(dead_code)] // The translator's tests use more of it.
mod process;
#[path = "../../../dbi/tests/translated/program.rs"]
#[allow(dead_code)]
mod program;

mod calls;
mod functions;
mod instructions;
mod observe;
mod oracle;
mod random;
mod segments;
mod signals;
mod vectors;
mod watching;
