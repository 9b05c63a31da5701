//! `cargo xtask test`: everything that must hold before a change lands.
//!
//! Apart from `.ci/run`, which only calls this, so that a developer and the
//! continuous integration run the same thing.

use crate::run::{self, Outcome};
use crate::{setup, tidy};

/// Checks, builds and tests the project. The test runner's summary is the last thing printed.
pub(crate) fn run() -> Outcome {
    headline("packages");
    setup::run()?;
    headline("format");
    run::step(&mut run::cargo(&["fmt", "--all", "--check"]))?;
    headline("lints");
    // The preloaded library has its own panic handler: it must not meet the
    // `std` feature that the rest of the workspace switches on, nor a profile that unwinds.
    run::step(&mut run::cargo(&["clippy", "--quiet", "--all-targets", "--", "-D", "warnings"]))?;
    let apart = ["clippy", "--quiet", "--profile=runtime", "--package=relive-preload", "--", "-D", "warnings"];
    run::step(&mut run::cargo(&apart))?;
    headline("tidy");
    tidy::run()?;
    headline("dependencies");
    dependencies()?;
    headline("release build");
    run::step(&mut run::cargo(&["build", "--quiet", "--release", "--package", "relive"]))?;
    headline("interleavings");
    interleavings()?;
    headline("tests");
    tests()
}

/// The runtime's lock and its sleeping and waking, through every interleaving with up to two preemptions.
fn interleavings() -> Outcome {
    let mut command = run::cargo(&["test", "--quiet", "--release", "--package", "relive-sys", "--lib"]);
    command.env("RUSTFLAGS", "--cfg loom").env("LOOM_MAX_PREEMPTIONS", "2").env("CARGO_TARGET_DIR", "target/loom");
    run::step(&mut command)
}

/// Advisories and sources, where cargo-deny is installed. Licences and
/// duplicates are checked by `tidy` in any case, from the same `deny.toml`.
fn dependencies() -> Outcome {
    if !run::succeeds(&mut run::cargo(&["deny", "--version"])) {
        println!("cargo-deny is not installed: advisories are not checked (licences and duplicates were, by tidy)");
        return Ok(());
    }
    run::step(&mut run::cargo(&["deny", "check"]))
}

fn tests() -> Outcome {
    if run::succeeds(&mut run::cargo(&["nextest", "--version"])) {
        // It runs no documentation tests; `tidy` sees to it that there are none.
        return run::step(&mut run::cargo(&["nextest", "run", "--no-fail-fast"]));
    }
    run::step(&mut run::cargo(&["test", "--no-fail-fast"]))
}

fn headline(what: &str) {
    println!("── {what} ──");
}
