//! What can be recorded here: checks of the machine, and of a program before it runs.
//!
//! Apart from launching because it only reads: it never starts the program, and
//! what it counts needs a disassembler that nothing else here uses. Looking at
//! the machine is in `host.rs`, at one ELF file in `module.rs`, at its
//! instructions in `code.rs`; `search.rs` finds libraries as the loader would,
//! `verdict.rs` says what it all means.

mod code;
mod host;
mod module;
mod search;
mod verdict;

pub use code::CodeCounts;
pub use host::{Check, State, check_host};
pub use module::{Language, Module, Role};
pub use verdict::{Level, Verdict};

use crate::program::{Program, ProgramError};
use search::Search;
use serde::Serialize;
use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Why a program can't be looked at.
#[derive(Debug, thiserror::Error)]
pub enum DoctorError {
    /// It isn't there or is no program.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// It can't be read.
    #[error("read {}: {cause}; make it readable", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// It is damaged.
    #[error("read {}: not a sound ELF file ({cause}); build it again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        cause: object::Error,
    },
}

/// What is known of a program and its libraries.
#[derive(Debug, Serialize)]
pub struct ProgramReport {
    /// The file that was looked at: the interpreter's if the program is a script.
    pub program: String,
    /// Why nothing of it can be recorded, if so.
    pub not_recordable: Option<String>,
    /// The program first, then its libraries in the loader's order.
    pub modules: Vec<Module>,
    /// Libraries that were not found.
    pub missing: Vec<String>,
    /// What it means, most serious first; never empty.
    pub verdicts: Vec<Verdict>,
}

/// Looks at the program that `name` means and at all libraries that it names.
///
/// # Errors
/// [`DoctorError`] if it isn't there, can't be read or is damaged. What can't be recorded is a verdict, not an error.
pub fn check_program(name: &OsString) -> Result<ProgramReport, DoctorError> {
    let (path, not_recordable) = match Program::find(std::slice::from_ref(name)) {
        Ok(program) => (program.executable, None),
        Err(ProgramError::NotRecordable { path, why }) => (path, Some(why)),
        Err(other) => return Err(other.into()),
    };
    let bytes = fs::read(&path).map_err(|cause| DoctorError::Read { path: path.clone(), cause })?;
    let main = module::read(&path, &bytes, Role::Program).map_err(|cause| match not_recordable {
        // A program for another processor is as sound as any.
        Some(why) => ProgramError::NotRecordable { path: path.clone(), why }.into(),
        None => DoctorError::Damaged { path: path.clone(), cause },
    })?;
    let mut search = Search::from_environment();
    let mut missing = Vec::new();
    let mut modules = vec![main];
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut queue: VecDeque<(String, usize)> = modules[0].needed.iter().map(|name| (name.clone(), 0)).collect();
    while let Some((name, by)) = queue.pop_front() {
        if !known.insert(name.clone()) {
            continue;
        }
        match library(&mut search, &name, &modules[by]) {
            Some(found) => {
                let index = modules.len();
                queue.extend(found.needed.iter().map(|name| (name.clone(), index)));
                modules.push(found);
            }
            None => missing.push(name),
        }
    }
    let verdicts = verdict::reach(not_recordable, &modules, &missing);
    let program = path.to_string_lossy().into_owned();
    let not_recordable = not_recordable.map(str::to_owned);
    Ok(ProgramReport { program, not_recordable, modules, missing, verdicts })
}

/// A library that is there but no 64-bit x86 object is passed over, as the loader does.
fn library(search: &mut Search, name: &str, by: &Module) -> Option<Module> {
    search.candidates(name, by).into_iter().find_map(|path| {
        let bytes = fs::read(&path).ok()?;
        let path = fs::canonicalize(&path).unwrap_or(path);
        module::read(&path, &bytes, role(name)).ok()
    })
}

/// What a library is by its name: the table speaks of the inner locks of glibc and libstdc++.
fn role(name: &str) -> Role {
    const GLIBC: [&str; 9] = [
        "libc.so.",
        "ld-linux-x86-64.so.",
        "libpthread.so.",
        "libm.so.",
        "libmvec.so.",
        "libdl.so.",
        "librt.so.",
        "libresolv.so.",
        "libutil.so.",
    ];
    const CXX: [&str; 3] = ["libstdc++.so.", "libc++.so.", "libc++abi.so."];
    let file = Path::new(name).file_name().map(|f| f.to_string_lossy()).unwrap_or_default();
    let is_one_of = |prefixes: &[&str]| prefixes.iter().any(|prefix| file.starts_with(prefix));
    if is_one_of(&GLIBC) {
        Role::Glibc
    } else if is_one_of(&CXX) {
        Role::Cxx
    } else {
        Role::Library
    }
}

#[cfg(test)]
mod tests {
    use super::{Level, Role, check_program};
    use relive_symbols::Treatment;

    #[test]
    fn a_small_program_of_the_system_can_be_recorded() {
        let report = check_program(&"true".into()).unwrap();
        assert_eq!(report.not_recordable, None);
        assert_eq!(report.modules[0].role, Role::Program);
        assert!(report.modules.iter().any(|module| module.role == Role::Glibc), "{:?}", report.modules);
        assert!(report.missing.is_empty(), "{:?}", report.missing);
        assert!(report.modules[0].imports.iter().any(|s| s.name == "exit" && s.treatment == Treatment::Ordered));
        assert!(report.verdicts.iter().all(|verdict| verdict.level < Level::Fatal), "{:?}", report.verdicts);
    }
}
