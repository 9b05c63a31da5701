//! A replay under gdb: divergences, a standstill and the end of the recording are told, and whoever computes is not convicted.
//!
//! Where the replay can't go on by itself the program gets a signal, so that gdb
//! stops there: its threads stand still for good and can be looked at.
//!
//! gdb starts the program. One process of a tree is another one than that: it is
//! started as in any replay, waits at its first moment, and gdb is attached to it.

use super::ending::Run;
use super::{
    Arc, Outcome, Packed, Path, PathBuf, ReplayError, Replayer, Report, Rule, Series, Service, Shared, Signal, TICK,
    Watched, Woken, flag, kill_all,
};
use crate::gdb::{self, Debugger};
use crate::lineage;
use crate::processes::{self, is_traced};
use crate::program;
use crate::signals::Held;
use crate::starter::Limit;
use crate::watch::{Stuck, Verdict, Watch};
use relive_trace::control::{TurnSlot, debugger as word};
use rustix::thread::futex;
use std::process::Child;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::time::Duration;

/// What is to be told while gdb runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The replay went another way.
    Diverged(Box<Report>),
    /// It was not as recorded, and goes on.
    Passed(Box<Report>),
    /// Every recorded event has run; the process had been killed here.
    RecordingEnds(Option<Outcome>),
}

impl Replayer {
    /// Replays under gdb. Returns gdb's exit status.
    ///
    /// # Errors
    /// [`ReplayError`] if it could not be started.
    pub fn debug(&self, debugger: &Debugger<'_>, mut tell: impl FnMut(Note)) -> Result<Outcome, ReplayError> {
        if let Some(process) = self.cast.only().filter(|&process| process > 0) {
            return self.debug_inner(process, debugger, &mut tell);
        }
        let rule = Rule::choose_quietly(&self.recording, &self.folder);
        let held = Held::new()?;
        let shared = self.prepare(&rule, flag::DEBUGGER)?;
        let script = script(&shared, debugger, "run")?;
        shared.control().debugger.store(word::ATTACHED, Release);
        let service = Service::start(Arc::clone(&shared), self.folder.clone(), Series::Learnt, None)?;
        let (control, arguments, environment): (PathBuf, _, _) = (shared.path(), self.arguments(), self.environment());
        let launch = self.launch(Path::new(&control), &arguments, &environment);
        let (root, program) = (self.packed.as_ref(), self.recording.manifest.program.path.as_path());
        let executable = root.map_or(program.to_owned(), |root| root.find(program));
        let mut command = gdb::command(&launch, &executable, root.map(Packed::root), script.as_deref(), debugger);
        let _limit = launch.start.as_ref().map(|start| Limit::enter(start.stack));
        let watched = Watched::new(held.released(|| command.spawn()).map_err(ReplayError::Gdb)?)?;
        let run = Run::new(self, &shared, &watched, &held, &service, &rule);
        let outcome = until_gdb_ends(&run, 0, &mut tell)?;
        kill_all(&shared);
        Ok(outcome)
    }

    /// Replays the process `number`, which others make, and attaches gdb to it.
    fn debug_inner(
        &self,
        number: u32,
        debugger: &Debugger<'_>,
        tell: &mut dyn FnMut(Note),
    ) -> Result<Outcome, ReplayError> {
        let rule = Rule::choose_quietly(&self.recording, &self.folder);
        let held = Held::new()?;
        let shared = self.prepare(&rule, flag::DEBUGGER)?;
        let script = script(&shared, debugger, "continue")?;
        let service = Service::start(Arc::clone(&shared), self.folder.clone(), Series::Learnt, None)?;
        let root = Watched::new(self.start(&shared, &held, false)?)?;
        let run = Run::new(self, &shared, &root, &held, &service, &rule);
        let outcome = if let Some(note) = until_it_waits(&run)? {
            tell(note);
            Outcome::Exited(DIVERGED)
        } else {
            let gdb = self.attach(number, &shared, script.as_deref(), debugger, &held)?;
            until_gdb_ends(&Run { watched: &Watched::new(gdb)?, ..run }, self.first_thread(number), tell)?
        };
        root.kill();
        kill_all(&shared);
        Ok(outcome)
    }

    fn first_thread(&self, number: u32) -> u32 {
        self.recording.process(number).map_or(0, |process| process.main_thread)
    }

    fn attach(
        &self,
        number: u32,
        shared: &Shared,
        script: Option<&Path>,
        debugger: &Debugger<'_>,
        held: &Held,
    ) -> Result<Child, ReplayError> {
        let member = lineage::members(&self.recording, &self.folder).into_iter().find(|member| member.index == number);
        let program = member.and_then(|member| member.program);
        // A script stands there for the program that reads it, which has the symbols.
        let program = program.map(|path| program::Program::find(&[path.clone().into()]).map_or(path, |p| p.executable));
        let pid = pid_of(shared, self.first_thread(number));
        let mut command = gdb::attach(pid, program.as_deref(), script, debugger);
        let started = held.released(|| command.spawn());
        started.map_err(ReplayError::Gdb)
    }
}

/// Lays ready what leads to a race, if that is wanted; the commands for it begin the replay with `start`.
fn script(shared: &Shared, debugger: &Debugger<'_>, start: &str) -> Result<Option<PathBuf>, ReplayError> {
    let Some(meeting) = debugger.meeting else { return Ok(None) };
    shared.stop_at(&meeting.events())?;
    meeting.script(start).map(Some)
}

/// The tool's own exit status.
const DIVERGED: i32 = 125;

fn pid_of(shared: &Shared, thread: u32) -> u32 {
    shared.turns().get(thread as usize).map_or(0, |slot| slot.pid.load(Acquire))
}

/// Lets those on the way run until the process that is wanted is there; what came in between, if something did.
fn until_it_waits(run: &Run<'_>) -> Result<Option<Note>, ReplayError> {
    const LOOK: Duration = Duration::from_millis(5);
    let mut watch = run.watch();
    while run.shared.control().debugger.load(Acquire) != word::WANTED {
        let scene = || run.scene();
        match run.watched.wait(run.held, Some(run.service.alarm()), Some(LOOK))? {
            Woken::Ended(found) => {
                let report = run.recorded().map(|recorded| scene().ended(recorded, found));
                return Ok(Some(report.map_or(Note::RecordingEnds(None), |report| Note::Diverged(Box::new(report)))));
            }
            Woken::Alarm => {
                return Ok(Some(Note::Diverged(Box::new(scene().reported(&run.shared.control().divergence)))));
            }
            Woken::Tick => {
                if let Verdict::Stuck(stuck) = run.verdict(&mut watch) {
                    return Ok(Some(Note::Diverged(Box::new(scene().stuck(stuck)))));
                }
            }
        }
    }
    Ok(None)
}

/// Watches the replay until the user leaves gdb, which `run` watches. `thread` is the first one of what is debugged.
fn until_gdb_ends(run: &Run<'_>, thread: u32, tell: &mut dyn FnMut(Note)) -> Result<Outcome, ReplayError> {
    let mut watch = run.watch();
    let mut told = false;
    loop {
        let alarm = (!told).then(|| run.service.alarm());
        let waits = run.shared.control().debugger.load(Acquire) == word::WANTED;
        if let Some(report) = run.hear() {
            tell(Note::Passed(Box::new(report.clone())));
        }
        let note = match run.watched.wait(run.held, alarm, (!told || waits).then_some(TICK))? {
            Woken::Ended(outcome) => return Ok(outcome),
            Woken::Alarm => Some(Note::Diverged(Box::new(run.scene().reported(&run.shared.control().divergence)))),
            Woken::Tick if waits => {
                let_go_if_traced(run.shared, thread);
                None
            }
            Woken::Tick => seen(run, &mut watch),
        };
        if let Some(note) = note {
            tell(note);
            interrupt(run.shared, thread);
            told = true;
        }
    }
}

/// What is to be told, if the replay has come to its end or can't go on. Its user may have stopped it, or what gdb does take
/// much time: a thread that computes for long is none that can't go on.
fn seen(run: &Run<'_>, watch: &mut Watch) -> Option<Note> {
    let is_stopped = |slot: &TurnSlot| {
        let (pid, tid) = (slot.pid.load(Acquire), slot.tid.load(Acquire));
        tid != 0 && processes::thread_state(pid, tid).is_some_and(|state| matches!(state.letter, 't' | 'T'))
    };
    if run.shared.turns().iter().any(is_stopped) {
        return None;
    }
    match run.verdict(watch) {
        Verdict::AtEnd => Some(Note::RecordingEnds(run.recorded())),
        Verdict::Stuck(stuck @ (Stuck::AllWait { .. } | Stuck::Sleeps { .. })) => {
            Some(Note::Diverged(Box::new(run.scene().stuck(stuck))))
        }
        Verdict::Stuck(_) | Verdict::Going => None,
    }
}

/// The process goes on once the debugger has it: as soon as the user says so.
fn let_go_if_traced(shared: &Shared, thread: u32) {
    if is_traced(pid_of(shared, thread)) {
        let debugger = &shared.control().debugger;
        if debugger.compare_exchange(word::WANTED, word::ATTACHED, AcqRel, Acquire).is_ok() {
            let _ = futex::wake(debugger, futex::Flags::empty(), i32::MAX as u32);
        }
    }
}

/// gdb stops all threads of a process that gets SIGINT, and the program never sees it. It is the process that met a divergence, or
/// `thread`'s, or whichever gdb has: its user may have had it follow another one than the first.
fn interrupt(shared: &Shared, thread: u32) {
    let control = shared.control();
    let met = (control.divergence.cause.load(Acquire) != 0).then(|| control.divergence.thread.load(Acquire));
    let threads = met.into_iter().chain([thread]).chain(0..control.born.load(Acquire));
    let pid = threads.map(|thread| pid_of(shared, thread)).find(|&pid| pid != 0 && is_traced(pid));
    processes::signal(pid.unwrap_or_else(|| pid_of(shared, thread)), Signal::INT);
}
