//! Guests of the environment's tests, built where a test wants them.
//!
//! Apart because tests that judge in different ways build them alike.
#![allow(dead_code, reason = "each test binary uses the part it needs")]

use crate::timed::run;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// The guest `guests/environment/NAME.c`, built into `folder`.
pub(crate) fn guest(folder: &Path, name: &str) -> PathBuf {
    guest_with(folder, name, &[])
}

/// The same, with what else the compiler is told.
pub(crate) fn guest_with(folder: &Path, name: &str, more: &[&str]) -> PathBuf {
    build(folder.join(name), name, &[], more)
}

/// The library that the same file makes with `LIBRARY`.
pub(crate) fn library(folder: &Path, name: &str) -> PathBuf {
    build(folder.join(format!("{name}.so")), name, &["-DLIBRARY", "-shared", "-fPIC"], &[])
}

fn build(program: PathBuf, name: &str, options: &[&str], more: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../guests/environment/{name}.c"));
    let mut compiler = Command::new("cc");
    compiler
        .args(["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-D_GNU_SOURCE"])
        .args(options)
        .arg("-o");
    run(compiler.arg(&program).arg(source).args(more), LIMIT).expect_code(0);
    program
}
