//! A replay from start to end: lays the plan ready, runs the program, watches it.

use crate::binary;
use crate::cpuid;
use crate::data_file::Series;
use crate::handing::Handing;
use crate::kept::{Images, Wrong};
use crate::known_code;
use crate::launch::{Launch, Runtime};
use crate::learnt::Learnt;
use crate::packed::Packed;
use crate::processes;
use crate::processor;
use crate::program::Program;
use crate::record::common_flags;
use crate::report::{Report, Scene};
use crate::service::Service;
use crate::shared::{Setup, Shared};
use crate::signals::Held;
use crate::starter::Start;
use crate::supervise::{Outcome, Watched, Woken};
use crate::watch::{Proc, Stuck, TICK, Verdict, Watch};
use relive_sys::slice::Short;
use relive_trace::control::{IN_USE, flag, mode};
use relive_trace::derived::{DerivedError, DerivedOrder};
use relive_trace::layout::{
    ATOMICS_TELL_SINCE, BACKTRACES_SINCE, ENVIRONMENT_SINCE, FILES_SINCE, FORKS_SINCE, FOUND_SINCE, HANDLERS_SINCE,
    HIGH_HEAP_SINCE, LAPSES_SINCE, LOCKS_SINCE, LOOK_UPS_SINCE, MODULES_SINCE, NEAR_BREAK_SINCE,
};
use relive_trace::manifest::{self, Level, Manifest};
use relive_trace::plan_builder::PlanBuilder;
use relive_trace::recording::{End, Recording};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::thread;
use std::time::{Duration, Instant};

mod cast;
mod debugging;
mod ending;
mod error;
mod known;
mod learning;
mod meeting;
mod passing;
mod progress;
mod races;
mod recorded;

use cast::Cast;
pub use debugging::Note;
pub use ending::Ending;
use ending::Run;
pub use error::ReplayError;
pub use known::{KnownRace, KnownRaces};
pub use learning::{NotLearnt, Rule};
pub use meeting::{MeetError, Meeting};
pub use passing::Passed;
pub use progress::Progress;
pub use races::{Besides, Hunt, Pass};
pub(crate) use recorded::Recorded;

/// A recording that is to be replayed.
#[derive(Debug)]
pub struct Replayer {
    folder: PathBuf,
    runtime: Runtime,
    recording: Recording,
    program: PathBuf,
    /// The program or a library is another build than the recorded one.
    rebuilt: bool,
    /// The files that stand for the machine's.
    packed: Option<Packed>,
    /// The files that its images were started from.
    images: Images,
    /// What may be other than recorded.
    allow: Allow,
    /// Where it runs.
    working: PathBuf,
    cast: Cast,
    /// Whether it runs under the translator, and what for.
    instrument: Instrument,
    progress: Progress,
}

/// What a replay does besides.
#[derive(Clone, Debug, Default)]
struct Instrument {
    /// Bits of `control::flag`.
    flags: u32,
    /// Where it leaves what it finds.
    races: Option<PathBuf>,
    /// How many bytes are watched there.
    watched: u64,
    /// Where a thread waits in vain, as another replay has shown; see [`Report::in_vain`](crate::report::Report::in_vain).
    in_vain: Option<(u32, u64)>,
    /// Races are looked for because of what a later recording is to order.
    learning: bool,
    /// A replay in which threads wait for no more than they must went another way than the recording.
    diverges: bool,
}

/// What may be other than recorded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allow {
    /// The program or a library may be another build.
    pub rebuilt: bool,
    /// The processor may lack what the recording's had.
    pub processor: bool,
}

/// One attempt at a replay.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    /// Bytes of standard output and error that an earlier one has shown.
    shown: [u64; 2],
    /// Threads wait for no more than the objects they come to ask for.
    goes_ahead: bool,
}

/// A finished replay.
#[derive(Debug)]
pub struct Replayed {
    /// Bytes of standard output and error that it came to show, where the runtime shows them.
    shown: [u64; 2],
    /// How it ended.
    pub ending: Ending,
    /// Where it went on although it was not as recorded.
    pub passed: Option<Passed>,
    /// Why what it learnt could not be kept, if so.
    pub not_learnt: Option<NotLearnt>,
}

impl Replayer {
    /// Reads and verifies the trace in `folder` and finds its program.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn open(folder: &Path, runtime: &Runtime, allow: Allow) -> Result<Self, ReplayError> {
        let recording = Recording::open(folder)?;
        let manifest = &recording.manifest;
        if manifest.environment_recorded && manifest.format < ENVIRONMENT_SINCE {
            return Err(ReplayError::Older { folder: folder.to_owned(), format: manifest.format });
        }
        let working = manifest.folder.as_path();
        let missing = |path: &Path| ReplayError::Missing { folder: folder.to_owned(), path: path.to_owned() };
        if !working.is_dir() && !manifest.environment_recorded {
            return Err(missing(working));
        }
        // Without its environment a program asks the processor again, and does what it does then.
        if manifest.environment_recorded && !allow.processor {
            let fits = processor::check(&manifest.host, &binary::host());
            fits.map_err(|cause| ReplayError::Processor { folder: folder.to_owned(), cause })?;
        }
        let packed = Packed::open(folder)?;
        let mut rebuilt = false;
        for file in std::iter::once(&manifest.program).chain(&manifest.libraries) {
            let path = file.path.as_path();
            let found = packed.as_ref().map_or(path.to_owned(), |packed| packed.find(path));
            if !found.exists() {
                return Err(missing(path));
            }
            let changed = !binary::is_same(file, &found);
            rebuilt |= changed;
            if changed && !allow.rebuilt {
                return Err(ReplayError::Rebuilt { folder: folder.to_owned(), path: path.to_owned() });
            }
        }
        let images = Images::of(folder);
        let name = manifest.start.as_ref().map(|start| start.name.as_path());
        let program = match (&packed, name) {
            (_, Some(name)) if images.first_has(&manifest.folder.as_path().join(name)) => {
                manifest.folder.as_path().join(name)
            }
            (Some(_), Some(name)) => name.to_owned(),
            _ => find_program(manifest),
        };
        let cast = Cast::everybody();
        let working = working_folder(working, packed.as_ref());
        Ok(Self {
            folder: folder.to_owned(),
            runtime: runtime.clone(),
            recording,
            program,
            rebuilt,
            packed,
            images,
            allow,
            working,
            cast,
            instrument: Instrument::default(),
            progress: Progress::default(),
        })
    }

    /// Under the translator, with a tool that inserts nothing.
    #[must_use]
    pub fn translated(self) -> Self {
        Self { instrument: Instrument { flags: flag::TRANSLATED, ..Instrument::default() }, ..self }
    }

    /// Without anybody seeing what it writes to its standard error.
    #[must_use]
    pub fn silent(mut self) -> Self {
        self.instrument.flags |= flag::SILENT;
        self
    }

    /// Of all its processes, replays only the one with this number.
    ///
    /// # Errors
    /// [`ReplayError::NoProcess`], [`ReplayError::NotByItself`].
    pub fn only(self, number: u32) -> Result<Self, ReplayError> {
        Ok(Self { cast: Cast::alone(&self.recording, &self.folder, number)?, ..self })
    }

    /// The rule of the first attempt.
    pub fn first_rule(&self) -> Rule {
        match self.cast.only() {
            None => Rule::choose(&self.recording, &self.folder),
            // What one process learns is not the order of all.
            Some(_) => Rule::choose_quietly(&self.recording, &self.folder),
        }
    }

    /// Whether a replay by this rule may lead elsewhere where one in which all wait for all would not. Such a one is to be
    /// tried [again](Replayer::run_again) if it diverges.
    pub fn is_loose(&self, rule: &Rule) -> bool {
        rule.is_derived() || self.goes_ahead(rule)
    }

    /// Whether threads wait for no more than the objects they come to ask for. Not where the environment is not recorded:
    /// what such a replay does outside is done by then.
    fn goes_ahead(&self, rule: &Rule) -> bool {
        matches!(rule, Rule::Learn(_)) && self.recording.manifest.environment_recorded
    }

    /// Replays by timestamps what diverged by `rule`, a looser one, or wrote other bytes and went on. If that comes to its
    /// end, later replays need not try a learnt order again, unless it wrote other bytes, too; where there was none yet, it is
    /// learnt now. Where the environment is recorded, what the first attempt has shown is not shown again.
    ///
    /// # Errors
    /// As [`Replayer::run`].
    pub fn run_again(
        &self,
        rule: &Rule,
        before: &Replayed,
        output: Option<&mut (dyn Write + Send)>,
    ) -> Result<Replayed, ReplayError> {
        let again = if rule.is_derived() { Rule::Reference } else { Rule::learn(&self.folder) };
        let replayed = self.attempt(&again, Attempt { shown: before.shown, goes_ahead: false }, output)?;
        let is_refuted = rule.is_derived() || before.passed.is_some() && replayed.passed.is_none();
        if is_refuted && matches!(replayed.ending, Ending::AsRecorded(_) | Ending::RecordingEnds(_)) {
            DerivedOrder::refute(&self.folder, &self.recording);
        }
        Ok(replayed)
    }

    /// Replays by `rule`. Its standard output goes to `output` if there is one.
    ///
    /// # Errors
    /// [`ReplayError`] if it could not be started.
    pub fn run(&self, rule: &Rule, output: Option<&mut (dyn Write + Send)>) -> Result<Replayed, ReplayError> {
        self.attempt(rule, Attempt { shown: [0; 2], goes_ahead: self.goes_ahead(rule) }, output)
    }

    fn attempt(
        &self,
        rule: &Rule,
        attempt: Attempt,
        output: Option<&mut (dyn Write + Send)>,
    ) -> Result<Replayed, ReplayError> {
        let held = Held::new()?;
        let shared = self.prepare(rule, if attempt.goes_ahead { flag::AHEAD } else { 0 })?;
        for (word, shown) in shared.control().output_bytes_before.iter().zip(attempt.shown) {
            word.store(shown, Relaxed);
        }
        let service = Service::start(Arc::clone(&shared), rule.folder(&self.folder).to_owned(), Series::Learnt, None)?;
        // Where the environment is not recorded a process becomes another user in a replay, too.
        let _handing = Handing::start(&shared, Series::Learnt, rule.folder(&self.folder), &self.runtime);
        let mut child = self.start(&shared, &held, output.is_some())?;
        self.progress.set(Some(Arc::clone(&shared)));
        let stdout = child.stdout.take();
        let leader = Watched::new(child)?;
        let (ending, passed) = thread::scope(|scope| {
            if let Some((from, to)) = stdout.zip(output) {
                scope.spawn(move || pass_on(from, to));
            }
            let run = Run::new(self, &shared, &leader, &held, &service, rule);
            let ending = run.to_the_end();
            kill_all(&shared);
            (ending, run.passed())
        });
        self.progress.set(None);
        let ending = ending?;
        let faithful =
            !matches!(ending, Ending::Diverged(_) | Ending::Interrupted(_) | Ending::Shares { .. } | Ending::Unread(_));
        // The watch for a passage compares words in which only replays by timestamps keep the clocks of mutexes.
        let watched = shared.control().survey.answered.load(Relaxed) > 0;
        let not_learnt =
            if faithful && !watched { rule.keep(&self.recording, &self.folder, service.refused()).err() } else { None };
        drop(service);
        rule.clean();
        let shown = shared.control().output_bytes.each_ref().map(|bytes| bytes.load(Relaxed));
        Ok(Replayed { shown, ending, passed, not_learnt })
    }

    /// How far its replays have come.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
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
        self.check_images()?;
        let files = self.packed.as_ref().map_or(&[][..], Packed::identities);
        let kept = self.images.entries(&self.recording);
        let plan = PlanBuilder::new(&self.recording, rule.derived()).with_parts(self.cast.parts());
        let listed = files.iter().flatten().chain(kept.iter().flatten());
        let listed: Vec<u8> = listed.flat_map(|word| word.to_le_bytes()).collect();
        let leaves = cpuid::from_text(&self.recording.manifest.cpuid);
        let shared = Shared::new(&Setup {
            mode: mode::REPLAY,
            flags: common_flags() | rule.flag() | flags | self.own_flags(),
            folder: rule.folder(&self.folder),
            source: &self.folder,
            thread_count: self.recording.thread_count(),
            plan_bytes: plan.bytes() + listed.len() as u64,
            races: self.instrument.races.as_deref(),
            cpuid: &leaves,
        })?;
        known_code::Kept::load(&self.runtime, &shared);
        shared.tell(self.recording.manifest.start.as_ref().map_or(&[], |start| &start.told))?;
        shared.order(&Learnt::from_manifest(&self.recording.manifest.accesses))?;
        shared.expect_in_vain(self.instrument.in_vain.map(|(thread, _)| thread))?;
        shared.list_files(files.len(), kept.len())?;
        let mut writer = shared.plan_writer()?;
        plan.write(&mut writer)?;
        writer.write_all(&listed)?;
        writer.flush()?;
        drop(writer);
        Ok(Arc::new(shared))
    }

    /// Whether each image finds its files: a replay that misses one later would look like a divergence.
    fn check_images(&self) -> Result<(), ReplayError> {
        if self.packed.is_some() || self.allow.rebuilt {
            return Ok(());
        }
        let manifest = &self.recording.manifest;
        let known = std::iter::once(&manifest.program).chain(&manifest.libraries).map(|file| file.path.as_path());
        let folder = self.folder.clone();
        match self
            .images
            .wrong(|image| self.recording.process(image).is_some() && self.cast.runs(image), &known.collect())
        {
            None => Ok(()),
            Some(Wrong::Missing(path)) => Err(ReplayError::Missing { folder, path }),
            Some(Wrong::Changed(path)) => Err(ReplayError::Rebuilt { folder, path }),
        }
    }

    fn own_flags(&self) -> u32 {
        let environment = if self.recording.manifest.environment_recorded { flag::ENVIRONMENT } else { 0 };
        let packed = if self.packed.is_some() { flag::PACKED } else { 0 };
        let kept = if self.images.has_kept() { flag::KEPT } else { 0 };
        let alone = if self.cast.only().is_some() { flag::ALONE } else { 0 };
        let format = self.recording.manifest.format;
        let since = [
            (LOCKS_SINCE, flag::LOCKS),
            (ATOMICS_TELL_SINCE, flag::ATOMICS_TELL),
            (LAPSES_SINCE, flag::LAPSES),
            (FILES_SINCE, flag::FILES),
            (LOOK_UPS_SINCE, flag::LOOK_UPS),
            (HANDLERS_SINCE, flag::HANDLERS),
            (MODULES_SINCE, flag::MODULES),
            (FORKS_SINCE, flag::FORKS),
            (BACKTRACES_SINCE, flag::BACKTRACES),
            (FOUND_SINCE, flag::FOUND),
        ];
        let until = [(HIGH_HEAP_SINCE, flag::LOW_HEAP), (NEAR_BREAK_SINCE, flag::FAR_BREAK)];
        let since = since.into_iter().filter(|&(version, _)| format >= version);
        let until = until.into_iter().filter(|&(version, _)| format < version);
        let by_format = since.chain(until).fold(0, |flags, (_, flag)| flags | flag);
        let atomics = if self.recording.manifest.level == Level::Atomics { flag::ATOMICS } else { 0 };
        let rebuilt = if self.rebuilt { flag::REBUILT } else { 0 };
        environment | atomics | packed | kept | alone | by_format | self.instrument.flags | rebuilt
    }

    fn start(&self, shared: &Shared, held: &Held, capture: bool) -> Result<Child, ReplayError> {
        let (control, arguments, environment) = (shared.path(), self.arguments(), self.environment());
        // Where the environment is recorded the runtime shows what the program writes, and has words of its own to say.
        let silent = self.instrument.flags & flag::SILENT != 0 && !self.recording.manifest.environment_recorded;
        let launch = Launch { capture, silent, ..self.launch(&control, &arguments, &environment) };
        // Its threads hand over to each other all the time, among whatever else computes here.
        let _slices = Short::begin();
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
            folder: Some(&self.working),
            library: &self.runtime.library,
            control,
            capture: false,
            silent: false,
            start: start.map(|start| Start::recorded(&self.runtime.starter, start)),
        }
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

/// A script must be started as such; anything else by the file that was recorded.
fn find_program(manifest: &Manifest) -> PathBuf {
    let command: Vec<OsString> = manifest.command.iter().map(|word| word.0.clone()).collect();
    let search_path = manifest.environment.iter().find(|(name, _)| name.0 == "PATH").map(|(_, value)| &value.0);
    match Program::find_as(&command, search_path.map(OsString::as_os_str), manifest.folder.as_path()) {
        Ok(found) if same_file(&found.executable, manifest.program.path.as_path()) => found.path,
        _ => manifest.program.path.as_path().to_owned(),
    }
}

/// Where the replay runs: with a recorded environment it asks for nothing there, and the folder may be gone.
fn working_folder(recorded: &Path, packed: Option<&Packed>) -> PathBuf {
    let (root, folder) = packed.map_or((Path::new("/"), recorded.to_owned()), |p| (p.root(), p.find(recorded)));
    if folder.is_dir() { folder } else { root.to_owned() }
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

/// The processes of the replay that are left.
fn processes_of(shared: &Shared) -> BTreeSet<u32> {
    let slots = shared.control().processes.iter().filter(|slot| slot.state.load(Acquire) == IN_USE);
    let turns = shared.turns().iter().map(|slot| slot.pid.load(Acquire));
    let pids: BTreeSet<u32> = slots.map(|slot| slot.pid.load(Acquire)).chain(turns).collect();
    pids.into_iter().filter(|&pid| pid != 0 && shared.is_mapped_by(pid)).collect()
}

/// Ends them, and whoever comes yet: such a one looks at the mode once it can be found here.
fn kill_all(shared: &Shared) {
    shared.control().mode.store(mode::CLOSED, SeqCst);
    for pid in processes_of(shared) {
        processes::signal(pid, Signal::KILL);
    }
}
