//! The programs whose races are known, `guests/races`: which of them are taken, and how
//! they are built for each tool.
//!
//! Apart because the table in that folder belongs to the tests: this reads as much of it
//! as a comparison of tools needs.

use super::tools::Build;
use crate::run::{self, Failure, Outcome};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What ends a line whose access races.
const MARK: &str = "// race ";

#[derive(Debug, Deserialize)]
struct Table {
    #[serde(rename = "case")]
    entries: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    guest: String,
    #[serde(default)]
    plugins: Vec<String>,
    #[serde(default)]
    programs: Vec<String>,
    runs: Vec<String>,
    pairs: Vec<Vec<String>>,
    #[serde(default)]
    certainty: String,
    #[serde(default)]
    possible: Vec<Vec<String>>,
    #[serde(default)]
    needs: Vec<String>,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    status: i32,
}

impl Entry {
    /// Whether nobody doubts what is in the table: no right uses of atomics that look like races, and no races that look
    /// like right uses.
    fn is_plain(&self) -> bool {
        self.needs.is_empty() && self.possible.is_empty() && self.certainty != "unsure"
    }
}

/// A program and its arguments.
#[derive(Debug, Clone)]
pub(super) struct Case {
    /// The source.
    guest: String,
    /// Sources of libraries beside it.
    plugins: Vec<String>,
    /// Of programs that it starts.
    programs: Vec<String>,
    /// For the compiler, besides the usual ones.
    flags: Vec<String>,
    /// How it ends by itself: its exit status, 128+S for signal S.
    pub(super) status: i32,
    /// Arguments.
    pub(super) arguments: String,
    /// `FILE:LINE` of each access that races; none if there is no race.
    pub(super) lines: Vec<String>,
}

impl Case {
    /// What it is called in a table.
    pub(super) fn name(&self) -> String {
        format!("{} {}", stem(&self.guest), self.arguments)
    }

    /// Whether it has a race.
    pub(super) fn races(&self) -> bool {
        !self.lines.is_empty()
    }

    /// The executable.
    pub(super) fn program(&self, build: Build, built: &Path) -> PathBuf {
        self.folder(build, built).join(stem(&self.guest))
    }

    /// Builds it.
    pub(super) fn build(&self, build: Build, built: &Path) -> Outcome {
        let into = self.folder(build, built);
        fs::create_dir_all(&into).map_err(|cause| Failure::File { path: into.clone(), cause })?;
        for plugin in &self.plugins {
            let library = into.join(format!("{}.so", stem(plugin)));
            run::step(compiler(build, plugin)?.args(["-shared", "-fPIC", "-o"]).arg(library).arg(plugin))?;
        }
        self.programs.iter().chain([&self.guest]).try_for_each(|source| {
            let program = into.join(stem(source));
            run::step(compiler(build, source)?.arg("-o").arg(program).arg(source).args(&self.flags).arg("-lm"))
        })
    }

    fn folder(&self, build: Build, built: &Path) -> PathBuf {
        build.folder(built).join("races").join(stem(&self.guest))
    }
}

fn stem(source: &str) -> &str {
    source.split('.').next().unwrap_or_default()
}

fn folder() -> PathBuf {
    run::root().join("guests/races")
}

/// As the tests compile it.
fn compiler(build: Build, source: &str) -> Outcome<Command> {
    let is_cpp = Path::new(source).extension().is_some_and(|kind| kind == "cpp");
    let mut command =
        build.compiler(is_cpp).ok_or_else(|| Failure::Other(format!("no compiler for {source}, {build:?}")))?;
    command.arg(if is_cpp { "-std=gnu++20" } else { "-std=gnu11" });
    command.args(["-O1", "-g", "-w", "-pthread", "-D_GNU_SOURCE"]).current_dir(folder());
    Ok(command)
}

/// Of each program the first plain case with a race and the first without one.
pub(super) fn chosen() -> Outcome<Vec<Case>> {
    let text = run::read(&folder().join("expected.toml"))?;
    let table: Table = toml::from_str(&text).map_err(|e| Failure::Other(format!("expected.toml: {e}")))?;
    let (mut cases, mut seen) = (Vec::new(), BTreeSet::new());
    for entry in table.entries.iter().filter(|entry| entry.is_plain()) {
        if !seen.insert((entry.guest.clone(), entry.pairs.is_empty())) {
            continue;
        }
        let Some(arguments) = entry.runs.first() else { continue };
        cases.push(Case {
            guest: entry.guest.clone(),
            plugins: entry.plugins.clone(),
            programs: entry.programs.clone(),
            flags: entry.flags.clone(),
            status: entry.status,
            arguments: arguments.clone(),
            lines: lines(entry)?,
        });
    }
    Ok(cases)
}

/// Where the lines stand that the pairs of an entry name by their tags.
fn lines(entry: &Entry) -> Outcome<Vec<String>> {
    // The third of a pair says how sure its race is.
    let sides = entry.pairs.iter().flat_map(|pair| pair.iter().take(2));
    let tags: BTreeSet<&str> = sides.filter_map(|side| Some(side.split_once(' ')?.1)).collect();
    let mut found = Vec::new();
    for source in std::iter::once(&entry.guest).chain(&entry.plugins).chain(&entry.programs) {
        for (index, line) in run::read(&folder().join(source))?.lines().enumerate() {
            if line.split_once(MARK).is_some_and(|(_, tag)| tags.contains(tag.trim())) {
                found.push(format!("{source}:{}", index + 1));
            }
        }
    }
    if found.len() < tags.len() {
        return Err(Failure::Other(format!("{}: a line of {tags:?} is not there", entry.guest)));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::chosen;

    #[test]
    fn each_program_is_taken_with_and_without_a_race() {
        let cases = chosen().expect("the table");
        let racing = cases.iter().filter(|case| case.races()).count();
        assert!(
            (35..=50).contains(&racing) && (35..=50).contains(&(cases.len() - racing)),
            "{racing}, {}",
            cases.len()
        );
        assert!(cases.iter().filter(|case| case.races()).all(|case| case.lines.len() <= 4));
        let mutex = cases.iter().find(|case| case.name() == "mutex different normal lock").expect("a case");
        assert!(mutex.lines.iter().all(|line| line.starts_with("mutex.c:")) && mutex.lines.len() == 2);
    }
}
