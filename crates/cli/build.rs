//! Builds the preloaded library and hands its path to `embedded.rs`, so that
//! the `relive` binary is self-contained.
//!
//! Apart from the workspace build because the library has no std, its own
//! panic handler and its own profile: it is built by a nested cargo into this
//! script's own output folder. A packager can name a finished library in
//! `RELIVE_RUNTIME_LIBRARY` instead.

use std::collections::hash_map::DefaultHasher;
use std::env;
use std::fs;
use std::hash::Hasher;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the library is made of, relative to the workspace.
const SOURCES: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "fronts/preload",
    "crates/rt",
    "crates/sys",
    "crates/order",
    "crates/symbols",
    "crates/calls",
    "crates/heap",
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

fn main() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    println!("cargo:rerun-if-env-changed=RELIVE_RUNTIME_LIBRARY");
    for source in SOURCES {
        watch(&workspace.join(source));
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let library = match env::var_os("RELIVE_RUNTIME_LIBRARY") {
        Some(finished) => PathBuf::from(finished),
        None => build(&workspace, &out.join("runtime")),
    };
    let bytes = fs::read(&library).unwrap_or_else(|e| panic!("cannot read {}: {e}", library.display()));
    let embedded = out.join("librelive_preload.so");
    fs::write(&embedded, &bytes).unwrap_or_else(|e| panic!("cannot write {}: {e}", embedded.display()));
    let mut hasher = DefaultHasher::new();
    hasher.write(&bytes);
    println!("cargo:rustc-env=RELIVE_PRELOAD_FILE={}", embedded.display());
    println!("cargo:rustc-env=RELIVE_PRELOAD_HASH={:016x}", hasher.finish());
}

fn watch(source: &Path) {
    if source.is_dir() {
        for part in ["src", "Cargo.toml", "build.rs"] {
            let part = source.join(part);
            if part.exists() {
                println!("cargo:rerun-if-changed={}", part.display());
            }
        }
    } else if source.exists() {
        println!("cargo:rerun-if-changed={}", source.display());
    }
}

fn build(workspace: &Path, target: &Path) -> PathBuf {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--package", "relive-preload", "--profile", "runtime"]);
    cargo.arg("--manifest-path").arg(workspace.join("Cargo.toml"));
    cargo.arg("--target-dir").arg(target);
    for name in OUTER_ONLY {
        cargo.env_remove(name);
    }
    let status = cargo.status().unwrap_or_else(|e| panic!("cannot start cargo for the preloaded library: {e}"));
    assert!(status.success(), "building the preloaded library failed: {status}");
    target.join("runtime/librelive_preload.so")
}
