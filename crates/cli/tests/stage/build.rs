//! Compiles a guest.
//!
//! Apart because test binaries run side by side and share what is built: the
//! name of an output is a hash of all that went into it, and it appears under
//! that name only when it is finished.

use super::registry::{self, Guest};
use super::scratch;
use std::collections::hash_map::DefaultHasher;
use std::ffi::OsString;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Part of every hash: raise it when the way of building changes.
const RECIPE: u32 = 1;

/// A guest that was built.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The executable.
    pub(crate) path: PathBuf,
}

impl Guest {
    /// Builds it unless that was done before.
    pub(crate) fn program(&self) -> Result<Program, String> {
        if let Some(path) = self.needs.iter().find(|path| !path.exists()) {
            return Err(format!("{} needs {}, which does not exist here", self.name, path.display()));
        }
        let folder = scratch().join(format!("{}-{:016x}", self.name, self.ingredients()));
        let program = Program { path: folder.join(stem(&self.source)) };
        if !program.path.exists() {
            self.build_into(&folder)?;
        }
        Ok(program)
    }

    fn build_into(&self, folder: &Path) -> Result<(), String> {
        let fresh = tempfile::tempdir_in(scratch()).expect("a folder to build in");
        for plugin in &self.plugins {
            let output = fresh.path().join(format!("{}.so", stem(plugin)));
            compile(plugin, &output, &["-shared".to_owned(), "-fPIC".to_owned()])?;
        }
        for program in &self.programs {
            compile(program, &fresh.path().join(stem(program)), &self.flags)?;
        }
        compile(&self.source, &fresh.path().join(stem(&self.source)), &self.flags)?;
        // Who loses the race finds the winner's folder in place: the same program.
        if std::fs::rename(fresh.path(), folder).is_ok() {
            let _ = fresh.keep();
        }
        if folder.is_dir() { Ok(()) } else { Err(format!("cannot create {}", folder.display())) }
    }

    fn ingredients(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        RECIPE.hash(&mut hasher);
        self.flags.hash(&mut hasher);
        for source in self.sources().chain(["transcript.h", "rounds.h"]) {
            let path = registry::folder().join(source);
            source.hash(&mut hasher);
            std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).hash(&mut hasher);
        }
        hasher.finish()
    }
}

fn stem(source: &str) -> &str {
    Path::new(source).file_stem().and_then(|stem| stem.to_str()).expect("a source has a name")
}

/// Compiles one source; its folder is the guests', so that line tables name it as people do.
fn compile(source: &str, output: &Path, flags: &[String]) -> Result<(), String> {
    let mut command = match Path::new(source).extension().and_then(|kind| kind.to_str()) {
        Some("c") => c_like("gcc", "-std=gnu11"),
        Some("cpp") => c_like("g++", "-std=gnu++20"),
        Some("rs") => rust(),
        _ => return Err(format!("{source} is in no language that is known here")),
    };
    command.current_dir(registry::folder()).arg(source).arg("-o").arg(output).args(flags);
    let done = command.output().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if done.status.success() {
        return Ok(());
    }
    Err(format!("{source} does not compile\n{}", String::from_utf8_lossy(&done.stderr)))
}

fn c_like(compiler: &str, standard: &str) -> Command {
    let mut command = Command::new(compiler);
    command.args([standard, "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-D_GNU_SOURCE"]);
    command
}

fn rust() -> Command {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc"));
    let mut command = Command::new(compiler);
    command.args(["--edition", "2024", "-g", "-O", "-D", "warnings"]);
    command
}
