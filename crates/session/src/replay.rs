//! A replay from start to end: lays the plan ready, runs the program, watches it.

use crate::binary;
use crate::data_file::Series;
use crate::launch::{Launch, Runtime};
use crate::processes;
use crate::program::{Program, ProgramError};
use crate::record::common_flags;
use crate::report::{Report, Scene};
use crate::service::Service;
use crate::shared::{Setup, Shared};
use crate::signals::Held;
use crate::starter::Start;
use crate::supervise::{Outcome, Watched, Woken};
use crate::watch::{Proc, Stuck, TICK, Verdict, Watch};
use relive_trace::control::{IN_USE, flag, mode};
use relive_trace::derived::{DerivedError, DerivedOrder};
use relive_trace::error::ReadError;
use relive_trace::manifest;
use relive_trace::plan_builder::PlanBuilder;
use relive_trace::recording::{End, Recording};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout};
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::thread;
use std::time::{Duration, Instant};

mod debugging;
mod ending;
mod learning;

pub use debugging::Note;
pub use ending::Ending;
use ending::Run;
pub use learning::{NotLearnt, Rule};

/// A recording that is to be replayed.
#[derive(Debug)]
pub struct Replayer {
    folder: PathBuf,
    runtime: Runtime,
    recording: Recording,
    program: PathBuf,
    /// The program or a library is another build than the recorded one.
    rebuilt: bool,
}

/// A finished replay.
#[derive(Debug)]
pub struct Replayed {
    /// How it ended.
    pub ending: Ending,
    /// Why what it learnt could not be kept, if so.
    pub not_learnt: Option<NotLearnt>,
}

/// Why there is no replay.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The trace can't be read or trusted.
    #[error(transparent)]
    Trace(#[from] ReadError),
    /// The program or a library is another one.
    #[error("replay {}: {} was rebuilt or replaced since; restore it, or try --allow-rebuilt", folder.display(), path.display())]
    Rebuilt {
        /// The trace.
        folder: PathBuf,
        /// The file.
        path: PathBuf,
    },
    /// The program or a library is gone.
    #[error("replay {}: {} is not there any more; restore it", folder.display(), path.display())]
    Missing {
        /// The trace.
        folder: PathBuf,
        /// The file or folder.
        path: PathBuf,
    },
    /// The program can't be started as it was.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The session's own means are not to be had.
    #[error("prepare the replay: {0}")]
    Session(#[from] io::Error),
    /// The program could not be started.
    #[error("start {}: {cause}", path.display())]
    Start {
        /// The program.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
}

impl Replayer {
    /// Reads and verifies the trace in `folder` and finds its program.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn open(folder: &Path, runtime: &Runtime, allow_rebuilt: bool) -> Result<Self, ReplayError> {
        let recording = Recording::open(folder)?;
        let manifest = &recording.manifest;
        let working = manifest.folder.as_path();
        let missing = |path: &Path| ReplayError::Missing { folder: folder.to_owned(), path: path.to_owned() };
        if !working.is_dir() && !manifest.environment_recorded {
            return Err(missing(working));
        }
        let mut rebuilt = false;
        for file in std::iter::once(&manifest.program).chain(&manifest.libraries) {
            let path = file.path.as_path();
            if !path.exists() {
                return Err(missing(path));
            }
            let changed = !binary::unchanged(file);
            rebuilt |= changed;
            if changed && !allow_rebuilt {
                return Err(ReplayError::Rebuilt { folder: folder.to_owned(), path: path.to_owned() });
            }
        }
        let command: Vec<OsString> = manifest.command.iter().map(|word| word.0.clone()).collect();
        let search_path = manifest.environment.iter().find(|(name, _)| name.0 == "PATH").map(|(_, value)| &value.0);
        // A script must be started as such; anything else by the file that was recorded.
        let program = match Program::find_as(&command, search_path.map(OsString::as_os_str), working) {
            Ok(found) if same_file(&found.executable, manifest.program.path.as_path()) => found.path,
            _ => manifest.program.path.as_path().to_owned(),
        };
        Ok(Self { folder: folder.to_owned(), runtime: runtime.clone(), recording, program, rebuilt })
    }

    /// Replays by `rule`. Its standard output goes to `output` if there is one.
    ///
    /// # Errors
    /// [`ReplayError`] if it could not be started.
    pub fn run(&self, rule: &Rule, output: Option<&mut (dyn Write + Send)>) -> Result<Replayed, ReplayError> {
        let held = Held::new()?;
        let shared = self.prepare(rule, 0)?;
        let service = Service::start(Arc::clone(&shared), rule.folder(&self.folder).to_owned(), Series::Learnt)?;
        let mut child = self.start(&shared, &held, output.is_some())?;
        let stdout = child.stdout.take();
        let watched = Watched::new(child)?;
        let ending = thread::scope(|scope| {
            if let Some((from, to)) = stdout.zip(output) {
                scope.spawn(move || pass_on(from, to));
            }
            let run = Run { replayer: self, shared: &shared, watched: &watched, held: &held, service: &service, rule };
            let ending = run.to_the_end();
            kill_all(&shared);
            ending
        })?;
        let faithful = !matches!(ending, Ending::Diverged(_) | Ending::Interrupted(_));
        let not_learnt =
            if faithful { rule.keep(&self.recording, &self.folder, service.refused()).err() } else { None };
        drop(service);
        rule.clean();
        Ok(Replayed { ending, not_learnt })
    }

    /// The recording.
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// The trace's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn prepare(&self, rule: &Rule, flags: u32) -> Result<Arc<Shared>, ReplayError> {
        let plan = PlanBuilder::new(&self.recording, rule.derived());
        let shared = Shared::new(&Setup {
            mode: mode::REPLAY,
            flags: common_flags() | rule.flag() | flags | self.own_flags(),
            folder: rule.folder(&self.folder),
            source: &self.folder,
            thread_count: self.recording.thread_count(),
            plan_bytes: plan.bytes(),
        })?;
        let mut writer = shared.plan_writer()?;
        plan.write(&mut writer)?;
        writer.flush()?;
        drop(writer);
        Ok(Arc::new(shared))
    }

    fn own_flags(&self) -> u32 {
        let environment = if self.recording.manifest.environment_recorded { flag::ENVIRONMENT } else { 0 };
        environment | if self.rebuilt { flag::REBUILT } else { 0 }
    }

    fn start(&self, shared: &Shared, held: &Held, capture: bool) -> Result<Child, ReplayError> {
        let (control, arguments, environment) = (shared.path(), self.arguments(), self.environment());
        let launch = Launch { capture, ..self.launch(&control, &arguments, &environment) };
        let started = held.released(|| launch.start());
        Ok(started.map_err(|cause| ReplayError::Start { path: self.program.clone(), cause })?.child)
    }

    fn launch<'a>(
        &'a self,
        control: &'a Path,
        arguments: &'a [OsString],
        environment: &'a [(OsString, OsString)],
    ) -> Launch<'a> {
        let start = self.recording.manifest.start.as_ref();
        Launch {
            path: &self.program,
            command: arguments,
            environment: Some(environment),
            folder: Some(self.working_folder()),
            library: &self.runtime.library,
            control,
            capture: false,
            start: start.map(|start| Start::recorded(&self.runtime.starter, start)),
        }
    }

    /// Where the replay runs: with a recorded environment it asks for nothing there, and the folder may be gone.
    fn working_folder(&self) -> &Path {
        let recorded = self.recording.manifest.folder.as_path();
        if recorded.is_dir() { recorded } else { Path::new("/") }
    }

    fn arguments(&self) -> Vec<OsString> {
        self.recording.manifest.command.iter().map(|word| word.0.clone()).collect()
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        let pairs = self.recording.manifest.environment.iter();
        pairs.map(|(name, value)| (name.0.clone(), value.0.clone())).collect()
    }

    fn duration(&self) -> Duration {
        let manifest = &self.recording.manifest;
        let ended = manifest.ended_ms.unwrap_or(manifest.started_ms);
        Duration::from_millis(ended.saturating_sub(manifest.started_ms))
    }
}

fn same_file(one: &Path, other: &Path) -> bool {
    matches!((fs::canonicalize(one), fs::canonicalize(other)), (Ok(one), Ok(other)) if one == other)
}

/// Reads to the end even if nobody takes it: a full pipe would stop the replay.
fn pass_on(mut from: ChildStdout, to: &mut (dyn Write + Send)) {
    let mut buffer = vec![0; 1 << 16];
    let mut taken = true;
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        taken = taken && to.write_all(&buffer[..count]).is_ok();
    }
    let _ = to.flush();
}

/// Ends every process of the replay that is left.
fn kill_all(shared: &Shared) {
    let slots = shared.control().processes.iter().filter(|slot| slot.state.load(Acquire) == IN_USE);
    let turns = shared.turns().iter().map(|slot| slot.pid.load(Acquire));
    let pids: BTreeSet<u32> = slots.map(|slot| slot.pid.load(Acquire)).chain(turns).collect();
    for pid in pids.into_iter().filter(|&pid| pid != 0 && shared.is_mapped_by(pid)) {
        if let Some(pid) = Pid::from_raw(pid as i32) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}
