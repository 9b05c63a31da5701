//! A recording from start to end: prepares the trace, runs the program, closes the trace.
//!
//! Whatever goes wrong with the trace once the program runs is reported in
//! [`Recorded`] and changes nothing for the program.

use crate::binary;
use crate::cpuid;
use crate::data_file::{self, Series};
use crate::file_limit;
use crate::handing::Handing;
use crate::known_code;
use crate::launch::{self, Launch, Runtime};
use crate::learnt::{Declared, Learnt};
use crate::limits::{self, Limit, Limits, recording_now};
use crate::program::Program;
use crate::redact::{self, Pattern};
use crate::service::Service;
use crate::shared::{Setup, Shared};
use crate::signals::Held;
use crate::starter::{self, Start};
use crate::sums;
use crate::supervise::{Outcome, Watched, Woken};
use relive_trace::bytes::read_file_header;
use relive_trace::control::{flag, mode};
use relive_trace::kept;
use relive_trace::layout::{FileHeader, end};
use relive_trace::manifest::{self, FileEntry, Level, Manifest, State, Text};
use relive_trace::recording::inputs_name;
use rustix::thread::{MembarrierQuery, membarrier_query};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What to record.
#[derive(Clone, Debug)]
pub struct RecordOptions<'a> {
    /// The program.
    pub program: &'a Program,
    /// What goes with the program.
    pub runtime: &'a Runtime,
    /// The trace folder, existing and empty.
    pub folder: &'a Path,
    /// Version of the tool.
    pub version: &'a str,
    /// Record what the program takes from outside, too.
    pub environment: bool,
    /// What is ordered; more than [`Level::Sync`] only with its environment.
    pub level: Level,
    /// Accesses that [`Level::Atomics`] orders besides.
    pub accesses: &'a Learnt,
    /// Tell of errors only.
    pub quiet: bool,
    /// Variables whose values don't stand in the trace.
    pub redacted: &'a [Pattern],
    /// What the recording may become at most.
    pub limits: Limits,
}

/// A finished recording.
#[derive(Debug)]
pub struct Recorded {
    /// How the program ended.
    pub outcome: Outcome,
    /// Data files of the recording.
    pub files: usize,
    /// Accesses that were learnt before and stand in code that it has loaded: so many it orders.
    pub ordered: usize,
    /// Their size in bytes.
    pub bytes: u64,
    /// Processes whose recording stopped before they did.
    pub stopped: usize,
    /// Why the trace is not closed, if so.
    pub incomplete: Option<RecordError>,
    /// Recorded processes that went on when the first ended.
    pub left_running: usize,
    /// How often threads waited for each other by calls of their own, which are ordered at the level of atomics only.
    pub unordered_waits: u64,
}

/// Why there is no recording, or only a part of one.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The trace can't be prepared or closed.
    #[error("write trace {}: {cause}; {}", path.display(), remedy(cause))]
    Trace {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// Where the program starts can't be told.
    #[error("record in the current folder: {0}; go to one that is there")]
    Folder(io::Error),
    /// The session's own means are not to be had.
    #[error("prepare the recording{}: {}", file_limit::remedy(.0), .0)]
    Session(io::Error),
    /// The program could not be started.
    #[error("start {}: {cause}", path.display())]
    Start {
        /// The program.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
}

fn remedy(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::NotFound => "the folder was removed or moved; record again",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space or name another folder with -o",
        io::ErrorKind::FileTooLarge => "raise the limit on file size (ulimit -f)",
        _ => "name another folder with -o",
    }
}

/// How long processes that outlive the first may take to end before the recording is closed around them.
const STRAGGLERS_MS: u64 = 200;
const STRAGGLERS_STEP_MS: u64 = 2;

/// Runs the program and records it. `reached` hears of the limit at which recording ends before the program, if so.
///
/// # Errors
/// [`RecordError`] if the program was not started.
pub fn record(options: &RecordOptions<'_>, reached: &mut dyn FnMut(Limit)) -> Result<Recorded, RecordError> {
    let RecordOptions { program, runtime, folder, environment, level, limits, .. } = *options;
    let trace_error = |cause| RecordError::Trace { path: folder.to_owned(), cause };
    let held = Held::new().map_err(RecordError::Session)?;
    let mut manifest = begin_manifest(options)?;
    let declared = (level == Level::Atomics).then(|| Declared::of(runtime));
    let accesses = ordered(options, declared.as_ref());
    manifest.accesses = accesses.to_manifest();
    // Where the loader is not there the kernel knows best what to say.
    manifest.start = (environment && program.loader.exists()).then(|| starter::choose(&program.path));
    let leaves = if environment { cpuid::ask() } else { Vec::new() };
    manifest.cpuid = cpuid::to_text(&leaves);
    data_file::create_first(&Series::Recorded.path(folder, 0)).map_err(trace_error)?;
    manifest.write(folder).map_err(trace_error)?;
    let setup = Setup {
        mode: mode::RECORD,
        flags: flags_of(options),
        folder,
        source: folder,
        thread_count: 0,
        plan_bytes: 0,
        races: None,
        cpuid: &leaves,
    };
    let shared = Arc::new(Shared::new(&setup).map_err(RecordError::Session)?);
    let known = known_code::Kept::load(runtime, &shared);
    shared.order(&accesses).map_err(RecordError::Session)?;
    shared.redact(options.redacted).map_err(RecordError::Session)?;
    if environment {
        shared.keep_from_now().map_err(RecordError::Session)?;
    }
    limits::start(shared.control(), &limits);
    let service = Service::start(Arc::clone(&shared), folder.to_owned(), Series::Recorded, declared)
        .map_err(RecordError::Session)?;
    // Only processes that become other users miss it.
    let handing = Handing::start(&shared, Series::Recorded, folder, runtime).ok();
    let control = shared.path();
    let chosen = manifest.start.as_ref().map(|chosen| Start::recorded(&runtime.starter, chosen));
    let started = match launch(options, &control, &held, chosen) {
        // Where our own files may not be executed the kernel lays the program out.
        Err(_) if manifest.start.take().is_some() => launch(options, &control, &held, None),
        started => started,
    };
    let started = started.map_err(|cause| RecordError::Start { path: program.path.clone(), cause })?;
    let watched = Watched::new(started.child).map_err(RecordError::Session)?;
    // Beside the program on another core: what it needs is known before the program can end and be rebuilt.
    let mut session = Session { shared: &shared, service: &service, folder, limits, reached: None, living: Vec::new() };
    let (libraries, outcome) = thread::scope(|scope| {
        let libraries = scope.spawn(|| binary::libraries(&program.loader, &program.executable));
        let outcome = session.wait(&watched, &held, reached);
        (libraries.join().unwrap_or_default(), outcome)
    });
    let outcome = outcome.map_err(RecordError::Session)?;
    let living = session.living;
    let left_running = close(&shared);
    drop((service, handing));
    known.save(&shared);
    manifest.libraries = libraries;
    let met = shared.met(&accesses);
    manifest.accesses = met.to_manifest();
    manifest.fixed_layout = started.fixed_layout;
    let finished = finish(&shared, folder, manifest, outcome, &living);
    let (files, bytes, incomplete) = match finished {
        Ok(entries) => (entries.len(), folder_bytes(folder), None),
        Err(cause) => (0, 0, Some(trace_error(cause))),
    };
    let stopped = (0..files as u32).filter(|&process| stopped_early(folder, process)).count();
    let unordered_waits = shared.control().unordered_waits.load(Relaxed);
    Ok(Recorded { outcome, files, ordered: met.count(), bytes, stopped, incomplete, left_running, unordered_waits })
}

/// What is ordered besides what always is.
fn ordered(options: &RecordOptions<'_>, declared: Option<&Declared>) -> Learnt {
    let mut accesses = options.accesses.clone();
    accesses.declare(declared.map(|declared| declared.in_program(options.program)).unwrap_or_default());
    accesses
}

fn flags_of(options: &RecordOptions<'_>) -> u32 {
    let environment = if options.environment { flag::ENVIRONMENT } else { 0 };
    let atomics = if options.level == Level::Atomics { flag::ATOMICS } else { 0 };
    let quiet = if options.quiet { flag::QUIET } else { 0 };
    common_flags() | environment | atomics | quiet
}

fn launch(
    options: &RecordOptions<'_>,
    control: &Path,
    held: &Held,
    start: Option<Start<'_>>,
) -> io::Result<launch::Started> {
    let RecordOptions { program, runtime, .. } = *options;
    let (path, command, library) = (&program.path, &program.command, &runtime.library);
    let launch = Launch {
        path,
        command,
        environment: None,
        folder: None,
        library,
        control,
        capture: false,
        silent: false,
        start,
    };
    held.released(|| launch.start())
}

/// The flags that both modes share.
pub(crate) fn common_flags() -> u32 {
    let both = MembarrierQuery::GLOBAL_EXPEDITED | MembarrierQuery::REGISTER_GLOBAL_EXPEDITED;
    if membarrier_query().contains(both) { flag::MEMBARRIER } else { 0 }
}

fn begin_manifest(options: &RecordOptions<'_>) -> Result<Manifest, RecordError> {
    let RecordOptions { program, version, redacted, .. } = *options;
    let own = binary::describe(&launch::absolute(&program.executable)).map_err(RecordError::Session)?;
    let command = program.command.iter().cloned().map(Text::from).collect();
    let folder = std::env::current_dir().map_err(RecordError::Folder)?;
    let mut manifest = Manifest::new(version, own, command, Text::from(folder));
    let shown = launch::own_environment().into_iter().map(|(name, value)| {
        let value = redact::redacted(redacted, &name, value);
        (Text::from(name), Text::from(value))
    });
    manifest.environment = shown.collect();
    manifest.host = binary::host();
    manifest.started_ms = now_ms();
    manifest.environment_recorded = options.environment;
    manifest.level = options.level;
    Ok(manifest)
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// A recording whose program runs.
struct Session<'a> {
    shared: &'a Shared,
    service: &'a Service,
    folder: &'a Path,
    limits: Limits,
    /// The limit at which it ended, and the images that were recorded then.
    reached: Option<Limit>,
    living: Vec<u32>,
}

impl Session<'_> {
    /// Waits for the program's end. On the way the recording may reach a limit, which `told` hears of.
    fn wait(&mut self, watched: &Watched, held: &Held, told: &mut dyn FnMut(Limit)) -> io::Result<Outcome> {
        let mut start = Instant::now();
        loop {
            let alarm = self.reached.is_none().then(|| self.service.alarm());
            let limit = match watched.wait(held, alarm, limits::time_left(&self.limits, start, self.reached))? {
                Woken::Ended(outcome) => {
                    // It went on unrecorded for so short a time that nobody was told yet.
                    if self.reached.is_none() && limits::is_reached(self.shared.control()) {
                        told(Limit::Bytes);
                    }
                    return Ok(outcome);
                }
                Woken::Alarm => Limit::Bytes,
                // The time counts from when there is something to record.
                Woken::Tick if self.shared.control().next_process.load(Acquire) == 0 => {
                    start = Instant::now();
                    continue;
                }
                Woken::Tick => Limit::Duration,
            };
            self.reached = Some(limit);
            self.living = limits::recording_now(self.shared).collect();
            limits::reach(self.shared, self.folder);
            told(limit);
        }
    }
}

/// Bytes of all data and inputs files, and of copies of others.
fn folder_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let counted = entries.filter(|entry| {
        let name = entry.file_name();
        let extension = Path::new(&name).extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("trace" | "inputs")) || name.to_str().is_some_and(kept::is_name)
    });
    counted.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

fn stopped_early(folder: &Path, process: u32) -> bool {
    let mut head = [0; size_of::<FileHeader>()];
    let read = File::open(Series::Recorded.path(folder, process)).and_then(|mut file| file.read_exact(&mut head));
    // Without a header there was no space for that.
    read.is_err() || read_file_header(&head).is_none_or(|header| header.end == end::STOPPED)
}

/// Waits a little for processes that are about to end, then tells the rest to stop recording. Returns their number.
fn close(shared: &Shared) -> usize {
    let deadline = Instant::now() + Duration::from_millis(STRAGGLERS_MS);
    while recording_now(shared).next().is_some() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(STRAGGLERS_STEP_MS));
    }
    let (control, left) = (shared.control(), recording_now(shared).count());
    // At a limit they have been told already.
    let _ = control.mode.compare_exchange(mode::RECORD, mode::CLOSED, AcqRel, Acquire);
    left
}

/// Cuts the data files, sums them up and completes the manifest.
///
/// A process that goes on keeps its file under no name: cutting it would kill the process.
///
/// Those of the images that were `living` when the recording reached a limit end there.
fn finish(
    shared: &Shared,
    folder: &Path,
    mut manifest: Manifest,
    outcome: Outcome,
    living: &[u32],
) -> io::Result<Vec<FileEntry>> {
    let running: Vec<u32> = recording_now(shared).collect();
    let (mut data, mut inputs) = (Vec::new(), Vec::new());
    let mut files = Vec::new();
    for process in 0..shared.control().next_process.load(Acquire).max(1) {
        let path = Series::Recorded.path(folder, process);
        if process > 0 && !path.exists() {
            continue;
        }
        if running.contains(&process) {
            data_file::detach(&path)?;
        }
        let bytes = data_file::cut(&path)?;
        limits::mark(shared.control(), &path, living.contains(&process))?;
        data.push((process, files.len()));
        files.push((path, bytes));
        let path = folder.join(inputs_name(process));
        match path.metadata().map(|metadata| metadata.len()) {
            Ok(0) => std::fs::remove_file(&path)?,
            Ok(bytes) => {
                inputs.push((process, files.len()));
                files.push((path, bytes));
            }
            Err(_) => {}
        }
    }
    let sums = sums::of(&files)?;
    let entry = |(process, file): (u32, usize)| FileEntry::new(process, files[file].1, sums[file]);
    manifest.inputs.extend(inputs.into_iter().map(entry));
    let entries: Vec<_> = data.into_iter().map(entry).collect();
    manifest.files.clone_from(&entries);
    manifest.state = State::Complete;
    manifest.ended_ms = Some(now_ms());
    manifest.outcome = Some(match outcome {
        Outcome::Exited(code) => manifest::Outcome::Exited(code as u8),
        Outcome::Killed(signal) => manifest::Outcome::Killed(signal as u8),
    });
    manifest.write(folder)?;
    Ok(entries)
}
