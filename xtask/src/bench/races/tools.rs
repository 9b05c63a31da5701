//! The tools that look for data races, ours and the others: how each is started, and
//! what it says when it finds one.
//!
//! Apart because times and findings must come from the same command lines.

use crate::bench::alone::Ended;
use crate::run;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Exit status for races, of ours and of `ThreadSanitizer`.
pub(super) const RACES: i32 = 66;

/// One of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) enum Peer {
    /// gcc's `ThreadSanitizer`.
    TsanGcc,
    /// clang's.
    TsanClang,
    /// Valgrind's Helgrind.
    Helgrind,
    /// Valgrind's DRD.
    Drd,
}

impl Peer {
    /// All of them.
    pub(super) const ALL: [Self; 4] = [Self::TsanGcc, Self::TsanClang, Self::Helgrind, Self::Drd];

    /// What it is called in a table.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::TsanGcc => "TSan, gcc",
            Self::TsanClang => "TSan, clang",
            Self::Helgrind => "Helgrind",
            Self::Drd => "DRD",
        }
    }

    /// How its programs are compiled.
    pub(super) const fn build(self) -> Build {
        match self {
            Self::TsanGcc => Build::TsanGcc,
            Self::TsanClang => Build::TsanClang,
            Self::Helgrind | Self::Drd => Build::Plain,
        }
    }

    /// `program` under this tool.
    pub(super) fn command(self, program: &Path) -> Command {
        let valgrind = |tool: &str| {
            let mut command = Command::new("valgrind");
            command.args(["-q", &format!("--tool={tool}")]).arg(program);
            command
        };
        match self {
            Self::TsanGcc | Self::TsanClang => Command::new(program),
            Self::Helgrind => valgrind("helgrind"),
            Self::Drd => valgrind("drd"),
        }
    }

    /// Whether it reported a race.
    pub(super) fn reported(self, ended: &Ended) -> bool {
        let says = |text: &str| ended.stderr.contains(text);
        match self {
            Self::TsanGcc | Self::TsanClang => says("WARNING: ThreadSanitizer:"),
            Self::Helgrind => says("Possible data race"),
            Self::Drd => says("Conflicting load") || says("Conflicting store"),
        }
    }

    /// Why it can't be used here, if so.
    pub(super) fn missing(self) -> Option<String> {
        let there = match self {
            Self::TsanGcc | Self::TsanClang => self.build().compiler(false).is_some(),
            Self::Helgrind | Self::Drd => run::succeeds(Command::new("valgrind").arg("--version")),
        };
        (!there).then(|| format!("{} is not installed: `cargo xtask setup --bench` installs it", self.name()))
    }
}

/// How a program is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Build {
    /// By gcc, as it is.
    Plain,
    /// By gcc for its `ThreadSanitizer`.
    TsanGcc,
    /// By clang for its own.
    TsanClang,
}

impl Build {
    /// All of them.
    pub(super) const ALL: [Self; 3] = [Self::Plain, Self::TsanGcc, Self::TsanClang];

    /// The folder of its programs, below `folder`.
    pub(super) fn folder(self, folder: &Path) -> PathBuf {
        folder.join(match self {
            Self::Plain => "plain",
            Self::TsanGcc => "tsan-gcc",
            Self::TsanClang => "tsan-clang",
        })
    }

    /// The compiler's command for C or C++, if there is one.
    pub(super) fn compiler(self, cpp: bool) -> Option<Command> {
        let names: &[&str] = match (self, cpp) {
            (Self::Plain | Self::TsanGcc, false) => &["gcc"],
            (Self::Plain | Self::TsanGcc, true) => &["g++"],
            (Self::TsanClang, false) => &["clang", "clang-14"],
            (Self::TsanClang, true) => &["clang++", "clang++-14"],
        };
        let name = names.iter().find(|name| run::succeeds(Command::new(name).arg("--version")))?;
        let mut command = Command::new(name);
        if self != Self::Plain {
            command.arg("-fsanitize=thread");
        }
        Some(command)
    }
}

/// First lines of what the tools say of their versions.
pub(super) fn versions() -> String {
    let mut commands = vec![Command::new("valgrind")];
    commands.extend([Build::Plain, Build::TsanClang].iter().filter_map(|build| build.compiler(false)));
    let version = |command: &mut Command| {
        let output = run::capture(command.arg("--version")).ok()?;
        String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_owned)
    };
    commands.iter_mut().filter_map(version).collect::<Vec<_>>().join("; ")
}
