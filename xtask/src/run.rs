//! Starting other programs, and how an xtask command fails.
//!
//! Apart so that each command reads as the list of steps it is.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Why a command stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A program could not be started.
    #[error("start `{line}`: {cause}")]
    Start {
        /// The command line.
        line: String,
        /// What the system said.
        cause: std::io::Error,
    },
    /// A program ran and failed.
    #[error("`{line}` failed: {status}")]
    Step {
        /// The command line.
        line: String,
        /// How it ended.
        status: std::process::ExitStatus,
    },
    /// A file could not be read or written.
    #[error("read or write {path}: {cause}")]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The project breaks rules of its own, already printed.
    #[error("{0} findings")]
    Untidy(usize),
    /// Anything else, as one sentence.
    #[error("{0}")]
    Other(String),
}

/// The result of an xtask command.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// The project's root folder.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the project")
}

/// `cargo` with `args`, in the project's root.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    command
}

/// Runs `command` with our own output and no input; an error if it fails.
pub(crate) fn step(command: &mut Command) -> Outcome {
    let line = line_of(command);
    let status = command.stdin(Stdio::null()).status().map_err(|cause| Failure::Start { line: line.clone(), cause })?;
    if status.success() { Ok(()) } else { Err(Failure::Step { line, status }) }
}

/// Runs `command` and hands back what it printed, however it ended.
pub(crate) fn capture(command: &mut Command) -> Outcome<Output> {
    let line = line_of(command);
    command.stdin(Stdio::null()).output().map_err(|cause| Failure::Start { line, cause })
}

/// Whether `command` starts and ends well.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// The text of `path`.
pub(crate) fn read(path: &Path) -> Outcome<String> {
    std::fs::read_to_string(path).map_err(|cause| Failure::File { path: path.to_owned(), cause })
}

/// The command line, for messages.
pub(crate) fn line_of(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for arg in command.get_args() {
        line.push(' ');
        line.push_str(&arg.to_string_lossy());
    }
    line
}

/// The first of a process's children, if it has one.
pub(crate) fn child_of(pid: u32) -> Option<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let children = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    children.flat_map(|list| list.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()).next()
}
