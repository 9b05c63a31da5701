//! A desk with its own traces and cache, where small C programs are built, recorded and replayed.
//!
//! Shared by `record.rs` and `replay.rs`, each of which uses a part of it.
#![allow(dead_code)]

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// A folder of its own.
pub(crate) struct Desk {
    folder: TempDir,
}

/// What a finished command left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    /// Lines of stderr with the desk's folder as `DESK` and sizes as `SIZE`.
    pub(crate) stderr: String,
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Builds a C program of this name.
    pub(crate) fn build(&self, name: &str, source: &str) -> PathBuf {
        self.build_with(name, source, &[])
    }

    pub(crate) fn build_with(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let code = self.path(&format!("{name}.c"));
        fs::write(&code, source).unwrap();
        let program = self.path(name);
        let compiler =
            Command::new("gcc").args(["-g", "-O1", "-pthread", "-o"]).arg(&program).arg(&code).args(flags).status();
        assert!(compiler.unwrap().success(), "gcc builds {name}");
        program
    }

    /// `relive` with its output captured.
    pub(crate) fn relive<A: AsRef<std::ffi::OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Run {
        let child = self.start(arguments, Stdio::null());
        self.finish(child)
    }

    /// `relive` that runs on.
    pub(crate) fn start<A: AsRef<std::ffi::OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
        stdin: Stdio,
    ) -> Child {
        self.here(Command::new(env!("CARGO_BIN_EXE_relive")).args(arguments).stdin(stdin)).spawn().unwrap()
    }

    /// A shell's script, which finds `relive` as `$RELIVE`, with its output captured.
    pub(crate) fn shell(&self, script: &str) -> Run {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).env("RELIVE", env!("CARGO_BIN_EXE_relive")).stdin(Stdio::null());
        self.finish(self.here(&mut shell).spawn().unwrap())
    }

    fn here<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .current_dir(self.folder.path())
            .env("RELIVE_TRACE_DIR", self.path("traces"))
            .env("XDG_CACHE_HOME", self.path("cache"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
    }

    /// Waits for it.
    pub(crate) fn finish(&self, child: Child) -> Run {
        let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
        let folder = fs::canonicalize(self.folder.path()).unwrap();
        let stderr = String::from_utf8(stderr).unwrap().replace(&*folder.to_string_lossy(), "DESK");
        let stderr = stderr.lines().map(without_sizes).collect::<Vec<_>>().join("\n");
        Run { status: status.code(), stdout: String::from_utf8(stdout).unwrap(), stderr }
    }

    /// The trace that was made last.
    pub(crate) fn latest(&self) -> PathBuf {
        fs::canonicalize(self.path("traces/latest")).unwrap()
    }
}

/// Sizes differ from run to run.
fn without_sizes(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let is_unit = |word: &str| ["B", "KiB", "MiB"].contains(&word.trim_end_matches([')', ',']));
    let shown = words.iter().enumerate().map(|(index, &word)| {
        let number = word.trim_start_matches('(');
        let size = number.parse::<f64>().is_ok() && words.get(index + 1).is_some_and(|&next| is_unit(next));
        if size { word.replace(number, "SIZE") } else { word.to_owned() }
    });
    shown.collect::<Vec<_>>().join(" ")
}
