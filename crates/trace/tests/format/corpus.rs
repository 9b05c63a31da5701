//! The corpus that fuzzing left, through the same entry points.

use crate::fuzzed;
use std::fs;
use std::path::Path;

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus");

fn each(target: &str, run: fn(&[u8])) {
    let entries = fs::read_dir(Path::new(CORPUS).join(target)).expect("the corpus of a fuzz target");
    let inputs: Vec<_> = entries.map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect();
    assert!(!inputs.is_empty(), "{target}");
    for input in inputs {
        run(&input);
    }
}

#[test]
fn what_fuzzing_kept_does_no_harm() {
    each("data_file", fuzzed::data_file);
    each("derived_order", fuzzed::derived_order);
    each("manifest", fuzzed::manifest);
    each("opened", fuzzed::opened);
    each("packed_head", fuzzed::packed_head);
    each("packed_index", fuzzed::packed_index);
    each("stream", fuzzed::stream);
}
