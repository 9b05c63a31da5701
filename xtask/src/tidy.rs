//! `cargo xtask tidy`: the project's rules that no compiler checks.
//!
//! Apart from the tests of the crates because the rules are about the crates:
//! who may use whom, how files look, what the documents must mention. It is a
//! command to run before a commit, and a test so that nobody can forget it.

mod dependencies;
mod documents;
mod functions;
mod sources;

use crate::run::{self, Failure, Outcome};
use std::path::{Path, PathBuf};

/// One broken rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The file, from the root, with a line where there is one.
    place: String,
    /// What is wrong and what to do.
    what: String,
}

impl Finding {
    fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { place: place.into(), what: what.into() }
    }
}

/// Everything that tidy found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Files looked at.
    files: usize,
    /// Broken rules: the command fails.
    errors: Vec<Finding>,
    /// Habits to keep an eye on: printed only.
    warnings: Vec<Finding>,
}

/// Checks the whole project and prints what it finds.
pub(crate) fn run() -> Outcome {
    let findings = check()?;
    for f in &findings.warnings {
        println!("{}: note: {}", f.place, f.what);
    }
    for f in &findings.errors {
        println!("{}: {}", f.place, f.what);
    }
    if !findings.errors.is_empty() {
        return Err(Failure::Untidy(findings.errors.len()));
    }
    println!("tidy: {} files, every rule kept", findings.files);
    Ok(())
}

fn check() -> Outcome<Findings> {
    let root = run::root();
    let mut findings = Findings::default();
    let metadata = cargo_metadata::MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .exec()
        .map_err(|e| Failure::Other(format!("cargo metadata: {e}")))?;
    dependencies::check(&metadata, &run::read(&root.join("deny.toml"))?, &mut findings)?;
    for path in files(root)? {
        findings.files += 1;
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        if path.extension().is_some_and(|e| e == "rs") {
            let text = run::read(&path)?;
            sources::check(&name, &text, &mut findings);
            functions::check(&name, &text, &mut findings);
        } else if name.ends_with("known_failures.tsv") {
            documents::check_known_failures(&name, &run::read(&path)?, &mut findings);
        }
    }
    documents::check_map(&run::read(&root.join("ARCHITECTURE.md"))?, &crate_folders(&metadata, root), &mut findings);
    Ok(findings)
}

/// The folder of every crate of the workspace, from the root.
fn crate_folders(metadata: &cargo_metadata::Metadata, root: &Path) -> Vec<String> {
    let folder = |p: &&cargo_metadata::Package| {
        let folder = p.manifest_path.parent()?.strip_prefix(root).ok()?;
        Some(folder.to_string())
    };
    metadata.workspace_packages().iter().filter_map(folder).collect()
}

/// Every file of the project that is written by hand, sorted.
fn files(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let failed = |cause| Failure::File { path: folder.to_owned(), cause };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let built = name == "target" || name == "artifacts" || name.starts_with('.');
        match entry.file_type().map_err(failed)? {
            kind if kind.is_dir() && !built => found.extend(files(&entry.path())?),
            kind if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_project_keeps_its_rules() {
        let found = super::check().expect("tidy runs");
        assert!(found.errors.is_empty(), "cargo xtask tidy: {:#?}", found.errors);
    }
}
