//! Guests of the environment's tests, built where a test wants them.
//!
//! Apart because tests that judge in different ways build them alike.

use crate::timed::run;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// The guest `guests/environment/NAME.c`, built into `folder`.
pub(crate) fn guest(folder: &Path, name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../guests/environment/{name}.c"));
    let program = folder.join(name);
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-D_GNU_SOURCE", "-o"]);
    run(compiler.arg(&program).arg(source), LIMIT).expect_code(0);
    program
}
