//! The trace format from outside: what a writer puts down, a reader gets back,
//! and nothing that is put into a trace can make the reader fail badly.

mod corpus;
mod damage;
mod derived;
mod files;
mod fuzzed;
mod golden;
mod manifest;
mod model;
mod packed;
mod plan;
mod random;
mod records;
mod schema;
mod writer;
