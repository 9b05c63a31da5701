//! Runs code natively and translated in this very process, and compares.
//!
//! One binary with a module for each subject, because all of them share `process`.

mod branches;
mod changing;
mod crossing;
mod flush;
mod functions;
mod process;
mod program;
mod random;
mod signals;
mod threads;
mod tools;
mod visits;
