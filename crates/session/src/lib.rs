//! The launching side: starts a program in record or replay, serves it while it
//! runs, and turns what is left into a result.
//!
//! - [`store`]: where traces live.
//! - [`lineage`]: the processes of a recording.
//! - [`doctor`]: what can be recorded here.
//! - [`program`]: what a command names, and whether it can be recorded.
//! - [`launch`]: starting it with the library preloaded; [`starter`]: at addresses of our choice.
//! - [`file_limit`]: which limit is whose.
//! - [`shared`]: the memory shared with it; [`service`]: who answers it.
//! - [`mod@pack`], [`unpack`]: a trace with its programs in one file; [`packed`]: a replay from it.
//! - [`processor`]: whether this machine can run what was recorded.
//! - [`supervise`], [`signals`]: waiting for it.
//! - [`record`]: a whole recording, within its [`limits`] and with what is to be hidden [`redact`]ed. [`replay`]: a whole replay; [`watch`] notices when it is stuck,
//!   [`report`] says how it diverged.
//!
//! It never prints and never exits: the CLI does.
#![deny(unsafe_code)]

mod answering;
pub mod binary;
mod cpuid;
pub mod data_file;
pub mod doctor;
pub mod file_limit;
pub mod gdb;
mod handing;
mod kept;
mod known_code;
pub mod launch;
pub mod learnt;
pub mod limits;
pub mod lineage;
mod locate;
pub mod nested;
pub mod pack;
pub mod packed;
pub mod place;
pub mod processes;
pub mod processor;
pub mod program;
pub mod record;
pub mod redact;
pub mod replay;
pub mod report;
pub mod run;
pub mod service;
pub mod shared;
pub mod signals;
pub mod starter;
pub mod store;
mod sums;
pub mod supervise;
mod survey;
pub mod unpack;
pub mod watch;
