//! Programs in which nothing races: compressors from Debian with their threads, and the kernels of
//! `workloads/`. `relive races` must have nothing to say of them.
//!
//! Apart from `races.rs`, whose programs race on purpose and which holds pairs against a
//! table: here any word of the report is one too many. memcached is not among them, because it
//! does race; what is found there stands in `docs/races.md`.

#[path = "trial/dice.rs"]
mod dice;
#[path = "trial/text.rs"]
mod text;
#[path = "trial/timed.rs"]
mod timed;

use std::path::Path;
use std::process::Command;
use std::time::Duration;
use timed::{RELIVE, run};

const LIMIT: Duration = Duration::from_secs(180);
/// Several blocks of each compressor.
const INPUT_BYTES: usize = 400_000;

/// Records a program in `folder` and looks for races in the recording.
fn expect_none(folder: &Path, program: &[&str]) {
    let trace = folder.join("trace");
    let mut record = Command::new(RELIVE);
    record.args(["record", "-q", "--environment", "-o"]).arg(&trace).arg("--").args(program).current_dir(folder);
    let recorded = run(&mut record, LIMIT).expect_code(0);
    assert!(!recorded.stdout.is_empty(), "{program:?} wrote nothing");
    let found = run(Command::new(RELIVE).args(["races", "-q"]).arg(&trace), LIMIT).expect_code(0);
    assert_eq!(found.text(), "no data races\n", "{program:?}\n{}", found.stderr);
}

fn compresses(program: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("in"), text::text(INPUT_BYTES, 1)).expect("the input");
    expect_none(folder.path(), program);
}

/// The kernel at the size of its own tests.
fn computes(kernel: &str, arguments: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads").join(kernel).with_extension("c");
    let mut compile = Command::new("gcc");
    compile.args(["-std=gnu11", "-O2", "-g", "-pthread", "-o"]).arg(folder.path().join(kernel)).arg(&source).arg("-lm");
    run(&mut compile, LIMIT).expect_code(0);
    let program = format!("./{kernel}");
    expect_none(folder.path(), &[&[program.as_str(), "-t", "3", "-s"], arguments].concat());
}

#[test]
fn pigz() {
    compresses(&["pigz", "-p", "3", "-b", "128", "-c", "in"]);
}

#[test]
fn pbzip2() {
    compresses(&["pbzip2", "-p2", "-1", "-b1", "-c", "-k", "in"]);
}

#[test]
fn xz() {
    compresses(&["xz", "-T2", "-1", "--block-size=64KiB", "-c", "-k", "in"]);
}

#[test]
fn zstd() {
    compresses(&["zstd", "-q", "-T2", "-B131072", "-3", "-c", "in"]);
}

#[test]
fn cholesky() {
    computes("cholesky", &[]);
}

#[test]
fn fft() {
    computes("fft", &[]);
}

#[test]
fn lu() {
    computes("lu", &[]);
}

#[test]
fn radix() {
    computes("radix", &[]);
}

#[test]
fn ocean() {
    computes("ocean", &["-r", "1"]);
}

#[test]
fn raytrace() {
    computes("raytrace", &[]);
}

#[test]
fn water_nsq() {
    computes("water_nsq", &["-r", "20"]);
}

#[test]
fn water_spatial() {
    computes("water_spatial", &["-r", "20"]);
}

#[test]
fn mlem() {
    computes("mlem", &[]);
}

#[test]
fn hash() {
    computes("hash", &[]);
}
