//! The detector against an oracle that knows nothing of clocks.
//!
//! `execution.rs` makes executions that a real program could have, `oracle.rs` says
//! by reachability in the graph of their events what races, `detect.rs` hands them
//! to the detector as the runtime does, `random.rs` compares the two; the other files
//! are single cases.

mod clocks;
mod detail;
mod detect;
mod execution;
mod frontier;
mod lasting;
mod oracle;
mod owned;
mod random;
mod recplay;
mod shadow;
mod single;
mod variables;
