//! Which accesses of a program in C are told by types, as compilers make them at each level of optimisation.
//!
//! Apart from unit tests because it takes a compiler to have code whose debug information is that of today's programs.

use relive_findings::names::shared_code;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = include_str!("typed.c");

/// The lines of the source of which an access is told, in what `compiler` makes of it.
fn told(compiler: &str, flags: &[&str]) -> BTreeSet<usize> {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/typed.c");
    let library: PathBuf = folder.path().join("typed.so");
    let mut command = Command::new(compiler);
    let status = command.args(["-g", "-shared"]).args(flags).arg("-o").arg(&library).arg(source).status();
    assert!(status.unwrap().success(), "{compiler} {flags:?}");
    let (_, typed) = shared_code(&library, &[]).expect("debug information");
    let loader = addr2line::Loader::new(&library).unwrap();
    let line = |address: &u64| loader.find_location(*address).unwrap()?.line;
    typed.iter().filter_map(line).map(|line| line as usize).collect()
}

/// The lines that end in `mark`.
fn marked(mark: &str) -> BTreeSet<usize> {
    SOURCE.lines().enumerate().filter(|(_, line)| line.ends_with(mark)).map(|(index, _)| index + 1).collect()
}

fn check(compiler: &str, flags: &[&str]) {
    let (expected, found) = (marked("// told"), &told(compiler, flags) - &marked("// either"));
    let show = |lines: BTreeSet<usize>| lines.into_iter().map(|line| SOURCE.lines().nth(line - 1)).collect::<Vec<_>>();
    let (missing, others) = (show(&expected - &found), show(&found - &expected));
    assert!(missing.is_empty() && others.is_empty(), "{compiler} {flags:?}: not {missing:#?}, but {others:#?}");
}

#[test]
fn of_gcc() {
    for level in ["-O0", "-O1", "-O2", "-O3", "-Os"] {
        check("gcc", &[level, "-fPIC"]);
        check("gcc", &[level, "-fPIC", "-fno-omit-frame-pointer", "-fcf-protection"]);
    }
}

#[test]
fn of_clang() {
    for level in ["-O0", "-O1", "-O2", "-O3"] {
        check("clang", &[level, "-fPIC"]);
    }
}
