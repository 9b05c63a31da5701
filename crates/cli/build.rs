//! Builds the preloaded library and the starter and hands their paths to
//! `embedded.rs`, so that the `relive` binary is self-contained.
//!
//! Apart from the workspace build because they have no std, their own panic
//! handlers and their own profile: they are built by a nested cargo, always
//! the same way, and therefore into one folder for all profiles of the outer
//! build (clippy, tests, release). A packager can name finished ones in
//! `RELIVE_RUNTIME_LIBRARY` and `RELIVE_STARTER` instead.

use std::collections::hash_map::DefaultHasher;
use std::env;
use std::fs;
use std::hash::Hasher;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What library and starter are made of, relative to the workspace.
const SOURCES: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "fronts/preload",
    "fronts/start",
    "crates/rt",
    "crates/sys",
    "crates/order",
    "crates/symbols",
    "crates/calls",
    "crates/heap",
    "crates/dbi",
    "crates/race",
    "crates/accesses",
    "crates/trace",
];
/// What the outer cargo puts into our environment for its own compiler calls and must not reach the inner one:
/// a coverage or sanitizer build of the tool must not instrument the library, clippy must not check it.
const OUTER_ONLY: &[&str] = &[
    "CARGO_ENCODED_RUSTFLAGS",
    "RUSTFLAGS",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "CARGO_BUILD_TARGET",
    "CARGO_TARGET_DIR",
    "CARGO_BUILD_TARGET_DIR",
    "CLIPPY_ARGS",
];

/// One thing to embed.
struct Part {
    /// The package, and where its build puts the file.
    package: &'static str,
    built: &'static str,
    /// The packager's variable.
    finished: &'static str,
    /// What the variables for `embedded.rs` begin with.
    variable: &'static str,
}

const PARTS: &[Part] = &[
    Part {
        package: "relive-preload",
        built: "librelive_preload.so",
        finished: "RELIVE_RUNTIME_LIBRARY",
        variable: "RELIVE_PRELOAD",
    },
    Part { package: "relive-start", built: "relive-start", finished: "RELIVE_STARTER", variable: "RELIVE_START" },
];

fn main() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for source in SOURCES {
        watch(&workspace.join(source));
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for part in PARTS {
        println!("cargo:rerun-if-env-changed={}", part.finished);
        let file = match env::var_os(part.finished) {
            Some(finished) => PathBuf::from(finished),
            None => build(&workspace, &shared(&out), part),
        };
        let bytes = fs::read(&file).unwrap_or_else(|e| panic!("cannot read {}: {e}", file.display()));
        let embedded = out.join(part.built);
        fs::write(&embedded, &bytes).unwrap_or_else(|e| panic!("cannot write {}: {e}", embedded.display()));
        let mut hasher = DefaultHasher::new();
        hasher.write(&bytes);
        println!("cargo:rustc-env={}_FILE={}", part.variable, embedded.display());
        println!("cargo:rustc-env={}_HASH={:016x}", part.variable, hasher.finish());
    }
}

fn watch(source: &Path) {
    if source.is_dir() {
        for part in ["src", "Cargo.toml", "build.rs", "start.ld"] {
            let part = source.join(part);
            if part.exists() {
                println!("cargo:rerun-if-changed={}", part.display());
            }
        }
    } else if source.exists() {
        println!("cargo:rerun-if-changed={}", source.display());
    }
}

/// A folder beside those of the outer build's profiles: `out` is `…/target/PROFILE/build/PACKAGE/out`.
/// A cargo that builds there keeps others waiting, and the next finds everything done.
fn shared(out: &Path) -> PathBuf {
    out.ancestors().nth(4).map_or_else(|| out.join("runtime"), |target| target.join("embedded"))
}

fn build(workspace: &Path, target: &Path, part: &Part) -> PathBuf {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--package", part.package, "--profile", "runtime"]);
    cargo.arg("--manifest-path").arg(workspace.join("Cargo.toml"));
    cargo.arg("--target-dir").arg(target);
    for name in OUTER_ONLY {
        cargo.env_remove(name);
    }
    let status = cargo.status().unwrap_or_else(|e| panic!("cannot start cargo for {}: {e}", part.package));
    assert!(status.success(), "building {} failed: {status}", part.package);
    target.join("runtime").join(part.built)
}
