//! The stage that programs under test are put on: build a guest, run it plainly,
//! record it, replay it, compare.
//!
//! Apart so that every test file can say `mod stage;` and use the same commands,
//! limits and comparisons. In short:
//!
//! ```ignore
//! let program = stage::registry::find("mutex_normal").program()?;
//! let recording = program.record(&["4", "100", "normal", "lock"], &Stage::default());
//! let replay = recording.replay(&[]);
//! stage::same(&recording.ended, &replay)?;
//! ```
// Each test binary uses its own part of this.
#![allow(dead_code)]

// The paths are written out because cargo also takes this file for a test of its own.
#[path = "stage/build.rs"]
pub(crate) mod build;
#[path = "stage/check.rs"]
pub(crate) mod check;
#[path = "stage/debugger.rs"]
pub(crate) mod debugger;
#[path = "stage/known.rs"]
pub(crate) mod known;
#[path = "stage/registry.rs"]
pub(crate) mod registry;
#[path = "stage/run.rs"]
pub(crate) mod run;

use build::Program;
use registry::Stop;
use run::{Ended, Limits};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Exit status of the tool's own failures and of divergences.
pub(crate) const TOOL_FAILED: i32 = 125;

/// How long one command may take, and what to send it when.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    /// A command that takes longer is killed, which is a failure.
    pub(crate) timeout: Duration,
    /// A signal to send once a text was printed.
    pub(crate) stop: Option<Stop>,
    /// Recordings hold what the program takes from outside, too.
    pub(crate) environment: bool,
    /// They are made at the level of atomics.
    pub(crate) atomics: bool,
    /// With nothing known of the program but what its debug information tells.
    pub(crate) untaught: bool,
}

impl Default for Stage {
    fn default() -> Self {
        Stage { timeout: Duration::from_secs(60), stop: None, environment: false, atomics: false, untaught: false }
    }
}

/// A recorded run: its trace, kept as long as this value, and how it ended.
#[derive(Debug)]
pub(crate) struct Recording {
    folder: tempfile::TempDir,
    stage: Stage,
    /// How the recorded run ended.
    pub(crate) ended: Ended,
}

impl Program {
    /// Runs the program by itself.
    pub(crate) fn native(&self, arguments: &[&str], stage: &Stage) -> Ended {
        let mut command = Command::new(&self.path);
        command.args(arguments);
        run::run(command, &stage.limits(true))
    }

    /// Runs the program under the translator.
    pub(crate) fn translated(&self, arguments: &[&str], stage: &Stage) -> Ended {
        let mut command = relive();
        command.args(["run", "--dbi", "--"]).arg(&self.path).args(arguments);
        run::run(command, &stage.limits(true))
    }

    /// Runs the program under `relive record`.
    pub(crate) fn record(&self, arguments: &[&str], stage: &Stage) -> Recording {
        let folder = tempfile::tempdir_in(scratch()).expect("a folder for the trace");
        let mut command = relive();
        command.arg("record").args(stage.environment.then_some("--environment"));
        command.args(stage.atomics.then_some("--level=atomics"));
        if stage.untaught {
            let lists = folder.path().join("nothing");
            fs::write(&lists, "[]").expect("an empty list");
            command.arg("--learnt").arg(lists);
        }
        command.arg("-o").arg(folder.path().join("trace")).arg("--");
        command.arg(&self.path).args(arguments);
        let ended = run::run(command, &stage.limits(true));
        Recording { folder, stage: stage.clone(), ended }
    }

    /// Has later recordings at the level of atomics know what races in the program.
    pub(crate) fn learn(&self, arguments: &[&str], stage: &Stage) -> Ended {
        let folder = tempfile::tempdir_in(scratch()).expect("a folder for the trace");
        let mut command = relive();
        command.args(["record", "-q", "--learn", "-o"]).arg(folder.path().join("trace")).arg("--");
        command.arg(&self.path).args(arguments);
        run::run(command, &stage.limits(true))
    }
}

impl Recording {
    /// The trace folder.
    pub(crate) fn trace(&self) -> PathBuf {
        self.folder.path().join("trace")
    }

    /// Replays it; the first replay learns, later ones use what it learnt.
    pub(crate) fn replay(&self, options: &[&str]) -> Ended {
        let mut command = relive();
        command.arg("replay").args(options).arg(self.trace());
        run::run(command, &self.stage.limits(false))
    }

    /// Whether it says where a thread stood that a signal struck while it computed: a replay that had to look for such a
    /// place learns nothing.
    pub(crate) fn was_struck(&self) -> bool {
        let mut command = relive();
        command.arg("dump").arg(self.trace());
        let dumped = run::run(command, &self.stage.limits(false));
        let text = String::from_utf8_lossy(&dumped.stdout).into_owned();
        text.lines().any(|line| line.contains("call name=rt_sigreturn result=") && !line.contains("result=0 "))
    }

    /// Leaves the trace on disk for whoever looks into a failure.
    pub(crate) fn keep(self) -> PathBuf {
        self.folder.keep().join("trace")
    }
}

impl Stage {
    /// A replay is never sent the signal that ended its recording: it must end by itself.
    fn limits(&self, may_stop: bool) -> Limits {
        Limits { timeout: self.timeout, stop: self.stop.clone().filter(|_| may_stop) }
    }
}

/// The program under test, without anything from outside that would change what it does.
pub(crate) fn relive() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_relive"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("RELIVE_") && name != "RELIVE_TRACE_DIR" {
            command.env_remove(name);
        }
    }
    command.env("RELIVE_TRACE_DIR", scratch().join("traces")).env("NO_COLOR", "1");
    command
}

/// Where tests put what they build and record.
pub(crate) fn scratch() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stage");
    std::fs::create_dir_all(&folder).expect("the folder for tests");
    folder
}

/// Whether a replay shows what its recording did: output and exit status.
pub(crate) fn same(recorded: &Ended, replayed: &Ended) -> Result<(), String> {
    if replayed.status != recorded.status {
        let (is, was) = (replayed.status_text(), recorded.status_text());
        return Err(format!("the replay ended with {is}, the recording with {was}\n{}", replayed.complaints()));
    }
    if replayed.stdout == recorded.stdout {
        return Ok(());
    }
    let (is, was) = (String::from_utf8_lossy(&replayed.stdout), String::from_utf8_lossy(&recorded.stdout));
    let line = is.lines().zip(was.lines()).position(|(one, other)| one != other);
    let line = line.unwrap_or_else(|| is.lines().count().min(was.lines().count()));
    Err(format!(
        "the replay printed something else, first in line {}\nrecorded: {}\nreplayed: {}\n{}",
        line + 1,
        was.lines().nth(line).unwrap_or("(end)"),
        is.lines().nth(line).unwrap_or("(end)"),
        replayed.complaints()
    ))
}
