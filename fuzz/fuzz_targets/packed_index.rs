//! Fuzz target; what it does with its input stands in `fuzzed.rs`.
#![no_main]
#![allow(dead_code)]

#[path = "../../crates/trace/tests/format/fuzzed.rs"]
mod fuzzed;
#[path = "../../crates/trace/tests/format/writer.rs"]
mod writer;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzzed::packed_index(input));
